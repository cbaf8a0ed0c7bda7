"""What an attack that was made for rules on signs and angles does to every rule of the frontier."""

from collections import defaultdict
from pathlib import Path

from f2ed.experiments.reproduction.comparison import Table
from f2ed.experiments.reproduction.quoted import finished_runs
from f2ed.experiments.reproduction.worst_case import Arm

__all__ = ["aimed", "aimed_table"]

_NAME, _ATTACK = "aimed", "stretched mimic"


def aimed(results: Path) -> dict[str, dict[str, Arm]]:
    """Return what was run, by rule and partition."""
    arms: dict[str, dict[str, Arm]] = defaultdict(lambda: defaultdict(Arm))
    for cell, log in finished_runs(_NAME, results):
        arms[cell.arm["estimator"]][cell.arm["partition"]].add(cell, log)
    return arms


def aimed_table(results: Path) -> Table:
    """Return the accuracy of each rule in each partition, the rule that loses least first."""
    arms = aimed(results)
    partitions = list(dict.fromkeys(name for by_partition in arms.values() for name in by_partition))
    lowest = {rule: min(arm.accuracy[_ATTACK].mean for arm in found.values()) for rule, found in arms.items()}
    rows = [
        (rule, *(arms[rule][name].accuracy[_ATTACK].text() if name in arms[rule] else "not run" for name in partitions))
        for rule in sorted(arms, key=lambda rule: -lowest[rule])
    ]
    return Table("", ("rule", *partitions), tuple(rows))
