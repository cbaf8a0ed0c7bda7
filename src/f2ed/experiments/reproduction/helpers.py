"""Helpers beside shards under several rules: the mean over seeds, with the lowest and the highest."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from f2ed.records import RunLog

__all__ = ["helpers_by_rule"]

PROTOCOLS = ("25 shards", "groups of 4", "nested by 2")
RULES = ("FilterL2", "NNM + FilterL2")
ATTACKS = ("none", "Oracle", "TMA", "Min-Max", "backdoor x2", "backdoor as trained")


def helpers_by_rule(logs: Sequence[RunLog]) -> str:
    """Return the table as Markdown: a row for each attack, a column for each protocol and rule."""
    cells: dict[tuple[str, str, str], list[RunLog]] = defaultdict(list)
    for log in logs:
        arm = log.header.arm
        cells[arm["attack"], arm["protocol"], arm["estimator"]].append(log)
    columns = [(protocol, rule) for protocol in PROTOCOLS for rule in RULES]
    lines = ["| | " + " | ".join(", ".join(column) for column in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for attack in ATTACKS:
        runs = [cells[attack, *column] for column in columns]
        lines.append(_row(f"{attack}: accuracy, %", runs, lambda log: 100 * log.final_accuracy))
        if attack.startswith("backdoor"):
            lines.append(_row(f"{attack}: success, %", runs, lambda log: 100 * (log.rounds[-1].success or 0)))
    return "\n".join(lines) + "\n"


def _row(label: str, cells: list[list[RunLog]], measure: Callable[[RunLog], float]) -> str:
    found = [[measure(log) for log in logs] for logs in cells]
    shown = [f"{np.mean(some):.1f} ({min(some):.1f} to {max(some):.1f})" if some else "not run" for some in found]
    return f"| {label} | " + " | ".join(shown) + " |"
