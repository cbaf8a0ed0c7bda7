"""Compares the mutants that live with the list of those that are explained."""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

EXPLAINED = Path(__file__).with_name("explained.toml")
ALIVE = {"survived", "no test", "open"}
ENDS = ("killed", "timeout", "survived", "no test", "open", "not run")


class Explained(NamedTuple):
    """Why mutants live, by their names."""

    why: dict[str, str]

    @classmethod
    def read(cls, path: Path = EXPLAINED) -> "Explained":
        """Read the list; a mutant has one explanation."""
        why: dict[str, str] = {}
        for kind in tomllib.loads(path.read_text("utf-8"))["kind"]:
            for name in kind["mutants"]:
                if name in why:
                    msg = f"explained twice: {name}"
                    raise ValueError(msg)
                why[name] = kind["why"]
        return cls(why)

    def missing(self, ends: Mapping[str, str]) -> list[str]:
        """Return the mutants that live without an explanation."""
        return sorted(name for name, end in ends.items() if end in ALIVE and name not in self.why)

    def stale(self, ends: Mapping[str, str], every: Iterable[str]) -> list[str]:
        """Return what is explained, and was killed or is made no more."""
        names = set(every)
        return sorted(name for name in self.why if name not in names or ends.get(name, "open") not in ALIVE)


def table(ends: Mapping[str, str], every: Iterable[str]) -> str:
    """Return how the mutants of each module ended."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name in every:
        counts[name.partition(":")[0]][ends.get(name, "not run")] += 1
    total: Counter[str] = sum(counts.values(), Counter())
    rows = [*sorted(counts.items()), ("together", total)]
    head = [f"| module | mutants | {' | '.join(ENDS)} |", "|" + "---|" * (len(ENDS) + 2)]
    return "\n".join([*head, *(f"| {name} | {found.total()} | {_cells(found)} |" for name, found in rows)])


def _cells(found: Counter[str]) -> str:
    return " | ".join(str(found[each]) for each in ENDS)


def report(ends: Mapping[str, str], every: Iterable[str], explained: Explained) -> bool:
    """Print the table, and what has to be explained or killed; return whether nothing has."""
    names = list(every)
    print(table(ends, names))
    missing, stale = (
        explained.missing({name: ends.get(name, "not run") for name in names}),
        explained.stale(ends, names),
    )
    print(f"\n{len(explained.why)} are explained; {len(missing)} live unexplained: kill or explain them.")
    print(*(f"  {ends[name]}: {name}" for name in missing), sep="\n")
    if stale:
        print(f"{len(stale)} explanations are no longer needed: remove them.")
        print(*(f"  {name}" for name in stale), sep="\n")
    return not missing
