"""Writes docs/reference: one page for each package from its `__all__`, and one for the command line from its help.

`conf.py` calls `write` at every build; the pages are not kept in git. A name that several packages export is described
once, in the package nearest to where it is defined. What a package with an `__all__` does not name is internal.
"""

import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType, UnionType
from typing import get_args

from sphinx.pycode import ModuleAnalyzer

import f2ed
from f2ed.cli.app import app

PACKAGES = tuple(module.name for module in pkgutil.iter_modules(f2ed.__path__) if module.name != "cli")
FRONT = """# `f2ed`

The names that most users need. Each is described in full in its package.

| name | |
|---|---|
"""


def write(folder: Path) -> None:
    """Write every page that is missing or out of date, and remove those of packages that are gone."""
    pages = {"f2ed": _front(), "cli": _command_line(), **{name: _package(f"f2ed.{name}") for name in PACKAGES}}
    folder.mkdir(exist_ok=True)
    for stale in set(folder.glob("*.md")) - {folder / f"{name}.md" for name in pages}:
        stale.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


@cache
def described(package: str) -> tuple[tuple[ModuleType, tuple[str, ...]], ...]:
    """Return the public modules of a package with the names to describe there, the package itself first."""
    modules = list(_modules(package))
    home = {}
    for module in sorted(modules, key=lambda each: each.__name__.count(".")):  # the deepest comes last, and stays
        home |= {id(getattr(module, name)): module for name in _exported(module)}
    return tuple(
        (module, tuple(name for name in _exported(module) if home[id(getattr(module, name))] is module))
        for module in modules
    )


def _modules(package: str) -> Iterator[ModuleType]:
    """Yield a package and its public sub-packages; a package without an `__all__` yields its modules instead."""
    module = import_module(package)
    yield module
    for each in pkgutil.iter_modules(module.__path__):
        name = f"{package}.{each.name}"
        if each.name.startswith("_") or (_exported(module) and not (each.ispkg and _exported(import_module(name)))):
            continue
        yield from _modules(name) if each.ispkg else [import_module(name)]


def _exported(module: ModuleType) -> tuple[str, ...]:
    return tuple(name for name in getattr(module, "__all__", ()) if not name.startswith("__"))


def _front() -> str:
    return FRONT + "".join(f"| {_link(name)} | {_summary(name, getattr(f2ed, name))} |\n" for name in _exported(f2ed))


def _link(name: str) -> str:
    value = getattr(f2ed, name)
    for package in PACKAGES:
        for module, names in described(f"f2ed.{package}"):
            if name in names and getattr(module, name) is value:
                role = {"function": "func", "class": "class", "data": "data"}[_kind(value)]
                return f"{{py:{role}}}`{name} <{module.__name__}.{name}>`"
    return f"`{name}`"


def _summary(name: str, value: object) -> str:
    text = _comment(name, value)[0] if _kind(value) == "data" else inspect.getdoc(value) or ""
    return text.partition("\n")[0].replace("|", "\\|")


def _package(package: str) -> str:
    text = [f"# `{package}`"]
    for module, names in described(package):
        if module.__name__ != package:
            if not names:
                continue
            text.append(f"## `{module.__name__}`")
        if module.__doc__:
            text.append(_eval_rst(f".. automodule:: {module.__name__}\n   :no-index:"))
        text += [_eval_rst(_directive(module, name)) for name in names]
    return "\n\n".join(text) + "\n"


def _directive(module: ModuleType, name: str) -> str:
    kind, where = _kind(getattr(module, name)), f"{module.__name__}.{name}"
    if kind == "class":
        options = ":members:\n   :exclude-members: count, index, title, family, paper, aliases"
        if getattr(module, name).__module__.split(".")[:2] != module.__name__.split(".")[:2]:
            options += "\n   :no-index:"  # its own package has the entry in the index
        return f".. autoclass:: {where}\n   {options}"
    if kind == "function":
        return f".. autofunction:: {where}"
    return f".. py:data:: {where}\n\n   " + "\n   ".join(_comment(name, getattr(module, name)))


def _comment(name: str, value: object) -> list[str]:
    """Return what is written below an alias or a constant; of a union, else, what it holds."""
    for module in [module for key, module in sorted(sys.modules.items()) if key.startswith("f2ed.")]:
        if getattr(module, name, None) is value:
            written = ModuleAnalyzer.for_module(module.__name__).find_attr_docs().get(("", name))
            if written:
                return written
    names = [getattr(each, "__name__", str(each)) for each in get_args(value)]
    return [f"One of {', '.join(f'`{each}`' for each in names)}." if isinstance(value, UnionType) else ""]


def process_signature(*event: object) -> tuple[str | None, str | None]:
    """Shorten a signature, as a handler of Sphinx's `autodoc-process-signature`."""
    signature, returned = event[-2:]
    return _shortened(signature), _shortened(returned)


def _shortened(text: object) -> str | None:
    """Write types as in the source: aliases by their names, and without what msgspec checks."""
    if not isinstance(text, str):
        return None
    text = re.sub(r"(?:typing\.)?Annotated\[(.+?), (?:msgspec\.)?Meta\([^)]*\)\]", r"\1", text)
    text = re.sub(r" \| (?:~?msgspec\.)?UnsetType = UNSET", " = UNSET", text)
    text = re.sub(r"~?(?:numpy\.)?ndarray\[.*?dtype\[~?(?:numpy\.)?(\w+)\]\]", r"NDArray[\1]", text)
    for alias, every in _ALIASES.items():
        text = re.sub(every, alias, text)
    return text


def _union(union: UnionType) -> str:
    """Return a pattern for a union as autodoc writes it."""
    return r" \| ".join(rf"~?(?:f2ed\.[\w.]+\.)?{each.__name__}" for each in get_args(union))


_ALIASES = {
    name: _union(getattr(module, name))
    for module, name in (
        (import_module("f2ed.estimators"), "AnyEstimator"),
        (import_module("f2ed.attacks"), "AnyAttack"),
        (import_module("f2ed.learning"), "AnyDataset"),
        (import_module("f2ed.learning"), "AnyModel"),
        (import_module("f2ed.learning"), "AnyPartition"),
    )
}


def _kind(value: object) -> str:
    if inspect.isclass(value):
        return "class"
    return "function" if inspect.isroutine(value) else "data"


def _eval_rst(text: str) -> str:
    return f"```{{eval-rst}}\n{text}\n```"


def _command_line() -> str:
    """Return the help of every command as one page."""
    text = app.generate_docs(output_format="markdown")
    text = re.sub(r"## Table of Contents\n.*?(?=^\*\*)", "", text, count=1, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^Example: (.*)$", r"```console\n$ \1\n```", text, flags=re.MULTILINE)
    text = text.replace("\n```\n\n```console\n$ ", "\n$ ")  # one block for all examples of a command
    return text.replace("# f2ed\n", "# Command line\n", 1)
