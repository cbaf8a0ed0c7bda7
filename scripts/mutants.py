"""Change the security code in small ways, one at a time, and show which changes no test notices.

    python scripts/mutants.py [--most N] [--seed N] [--children N] [PATTERN …]

Runs mutmut with the scope in pyproject.toml. All would take many hours, so at most N of each file are run, drawn
with a seed: a larger N adds to those that were run before. Patterns such as 'f2ed.deployment.pin*' narrow it down; what
is named by a pattern is run whole unless --most says otherwise.
"""

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

RESULTS = Path("mutants")
MUTMUT = Path(sys.executable).with_name("mutmut")
# As mutmut numbers the ends of a run; anything else killed the mutant.
ENDS = {
    None: "not run",
    0: "survived",
    **dict.fromkeys((5, 33), "no test"),
    **dict.fromkeys((24, 36, 152, 255, -24), "timeout"),
}
EVERY = 10**9
FIRST = "f2ed.protocol.secagg.checks.x_check__mutmut_1"
"""Run to make all mutants, and to find out which tests reach them."""


def found() -> dict[str, dict[str, int | None]]:
    """Return how each mutant ended, by file."""
    return {
        str(path.relative_to(RESULTS / "src")).removesuffix(".meta"): json.loads(path.read_text())["exit_code_by_key"]
        for path in sorted(RESULTS.glob("src/**/*.meta"))
    }


def drawn(mutants: dict[str, int | None], patterns: list[str], most: int, seed: int) -> list[str]:
    """Return the mutants of a file to run: the first ones of an order that the seed fixes."""
    names = sorted(name for name in mutants if not patterns or any(fnmatch(name, each) for each in patterns))
    random.Random(seed).shuffle(names)
    return names[:most]


def end_of(code: int | None) -> str:
    """Return how a mutant ended."""
    return ENDS.get(code, "killed")


def run(names: list[str], children: int) -> None:
    """Run these mutants; mutmut makes all of them first."""
    if subprocess.run([MUTMUT, "run", "--max-children", str(children), *names], check=False).returncode:
        sys.exit("mutmut failed; its reason stands above")


def main() -> None:
    """Draw, run and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument(
        "--most", type=int, default=None, help="mutants of each file (default 20, or all that are named)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--children", type=int, default=2, help="processes at the same time")
    parser.add_argument("--show", action="store_true", help="run nothing; show how the last run ended")
    given = parser.parse_args()
    most = given.most if given.most is not None else EVERY if given.patterns else 20
    if not given.show:
        run([FIRST], 1)
    sample = {file: drawn(mutants, given.patterns, most, given.seed) for file, mutants in found().items()}
    wanted = [name for names in sample.values() for name in names]
    if not given.show:
        ends = {name: code for mutants in found().values() for name, code in mutants.items()}
        if new := [name for name in wanted if ends[name] is None]:
            run(new, given.children)
    report(sample)


def report(sample: dict[str, list[str]]) -> None:
    """Print a table of all files, and the mutants that no test killed."""
    total: Counter[str] = Counter()
    left = []
    print("| file | mutants | run | killed | survived | no test | timeout |\n|---|---|---|---|---|---|---|")
    for file, mutants in found().items():
        ends = Counter(end_of(mutants[name]) for name in sample[file])
        alive = [name for name in sorted(sample[file]) if end_of(mutants[name]) in {"survived", "no test"}]
        left += [f"{end_of(mutants[name])}: {name}" for name in alive]
        ends["mutants"], ends["run"] = len(mutants), sum(ends.values()) - ends["not run"]
        total.update(ends)
        if ends["run"]:
            print(row(file, ends))
    print(row("together", total))
    print(*left, sep="\n")


def row(name: str, ends: Counter[str]) -> str:
    """Return a line of the table."""
    shown = ("mutants", "run", "killed", "survived", "no test", "timeout")
    return f"| {name} | " + " | ".join(str(ends[each]) for each in shown) + " |"


if __name__ == "__main__":
    main()
