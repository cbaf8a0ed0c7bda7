"""What rules that withstand a few malicious clients lose of a class that only a few honest ones have."""

from collections import defaultdict
from pathlib import Path

from f2ed.experiments.file import find, read
from f2ed.experiments.grid import expand
from f2ed.experiments.reproduction.comparison import Table
from f2ed.experiments.reproduction.frontier import Standing
from f2ed.experiments.reproduction.outcomes import matched
from f2ed.experiments.reproduction.quoted import logs_of
from f2ed.experiments.reproduction.worst_case import Arm

__all__ = ["rare_class"]

_NAME = "rare_class"


def rare_class(results: Path, alike: list[Standing]) -> Table:
    """Return the accuracy of each rule with the rare class, beside its standing where all clients are alike."""
    cells = expand(read(find(Path(_NAME))))
    found = matched(cells, logs_of(results / _NAME))
    arms: dict[str, Arm] = defaultdict(Arm)
    for cell in cells:
        if cell.slug in found:
            arms[cell.arm["estimator"]].add(cell, found[cell.slug])
    beside = {each.rule: each.row for each in alike}
    missing = ("not run",) * 4
    rows = tuple(
        (rule, arm.accuracy["none"].text(), beside.get(rule, missing)[0], beside.get(rule, missing)[2])
        for rule, arm in arms.items()
    )
    head = ("rule", "a class of ten clients", "all classes alike", "worst listed backdoor of ten")
    return Table("", head, rows)
