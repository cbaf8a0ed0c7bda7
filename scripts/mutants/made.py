"""Makes the mutants: a copy of the source in which each function of the scope stands beside its changed versions.

The changes are mutmut's, and so is the scope (pyproject.toml). A mutant is named after its function and the lines that
change, so that its name survives edits elsewhere.
"""

import hashlib
import json
import shutil
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "mutants"
SOURCE = WORK / "src"
LIST = WORK / "list.json"


class Mutant(NamedTuple):
    """One change of one function."""

    name: str
    """Function, what it was, what it becomes."""
    function: str
    """Module and qualified name, with a colon between them."""
    version: str
    """As mutmut calls the changed function."""
    source: str
    """A digest of the function that is changed."""


def load() -> list[Mutant]:
    """Return the mutants that were made last."""
    return [Mutant(*each) for each in json.loads(LIST.read_text("utf-8"))]


def make() -> list[Mutant]:
    """Make all mutants again."""
    from mutmut.configuration import config  # noqa: PLC0415  a machine that only runs mutants needs no mutmut

    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "src", SOURCE, ignore=shutil.ignore_patterns("__pycache__"))
    every: list[Mutant] = []
    for path in sorted(path for path in ROOT.glob("src/**/*.py") if config().should_mutate(path.relative_to(ROOT))):
        every += _of_file(path)
    LIST.write_text(json.dumps(every), "utf-8")
    return every


def _of_file(path: Path) -> list[Mutant]:
    from mutmut.mutation.file_mutation import mutate_file_contents  # noqa: PLC0415

    made = mutate_file_contents(str(path), path.read_text("utf-8"))
    (WORK / path.relative_to(ROOT)).write_text(made.code, "utf-8")
    lines = made.code.splitlines()
    texts = {
        name: lines[span.start - 1 : span.end]
        for name, span in made.line_span_by_function_name.items()
        if name is not None
    }
    module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    seen: Counter[str] = Counter()
    mutants = []
    for version in made.mutant_names:
        mangled = version.partition("__mutmut_")[0]
        original = texts[f"{mangled}__mutmut_orig"]
        qualified = mangled[1:].strip("ǁ").replace("ǁ", ".") if "ǁ" in mangled else mangled[2:]
        function = f"{module}:{qualified}"
        name = f"{function} | {change(original, texts[version])}"
        seen[name] += 1
        if seen[name] > 1:
            name += f" (change {seen[name]} of the kind)"
        digest = hashlib.sha256("\n".join(original).encode()).hexdigest()[:16]
        mutants.append(Mutant(name, function, version, digest))
    return mutants


def change(was: list[str], becomes: list[str]) -> str:
    """Return the lines that differ, the first lines apart: they hold the name of the version."""
    old, new = _body(was), _body(becomes)
    parts = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            parts.append(" ".join(old[i:j]) + " → " + " ".join(new[k:m]))
    return "; ".join(parts)


def _body(lines: list[str]) -> list[str]:
    """Return the lines without the name of the function, which differs between versions."""
    text = "\n".join(each.strip() for each in lines if each.strip())
    name = text.partition("def ")[2].partition("(")[0]
    return text.replace(f"def {name}(", "def (", 1).splitlines()
