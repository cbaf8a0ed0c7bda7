"""What rules that withstand a few malicious clients lose of a class that only a few honest ones have."""

from collections import defaultdict
from pathlib import Path

from f2ed.experiments.reproduction.comparison import Table
from f2ed.experiments.reproduction.frontier import Standing
from f2ed.experiments.reproduction.quoted import finished_runs
from f2ed.experiments.reproduction.worst_case import Arm

__all__ = ["rare_class"]

_NAME = "rare_class"


def rare_class(results: Path, alike: list[Standing]) -> Table:
    """Return the accuracy of each rule with the rare class, beside its standing where all clients are alike."""
    arms: dict[str, Arm] = defaultdict(Arm)
    for cell, log in finished_runs(_NAME, results):
        arms[cell.arm["estimator"]].add(cell, log)
    beside = {each.rule: each.row for each in alike}
    missing = ("not run",) * 4
    rows = tuple(
        (rule, arm.accuracy["none"].text(), beside.get(rule, missing)[0], beside.get(rule, missing)[2])
        for rule, arm in arms.items()
    )
    head = ("rule", "a class of ten clients", "all classes alike", "worst listed backdoor of ten")
    return Table("", head, rows)
