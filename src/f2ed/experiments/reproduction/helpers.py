"""Helpers beside shards on the same cells, each under the rules that it can run: means over seeds."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from f2ed.records import RunLog

__all__ = ["helpers_by_rule"]

PROTOCOLS = ("25 shards", "groups of 4", "groups of 2", "nested by 2")
ACCURACY = ("none", "Oracle", "TMA", "Min-Max")
SUCCESS = ("backdoor x2", "backdoor as trained", "DBA", "adaptive backdoor", "disguised backdoor")
_SHARD = 4


def helpers_by_rule(logs: Sequence[RunLog]) -> str:
    """Return the table as Markdown: a row for each protocol and rule, a column for each attack.

    Accuracy under attacks on it; under backdoors the largest success and, for all of them, the lowest accuracy.
    """
    cells: dict[tuple[str, str], dict[str, list[RunLog]]] = defaultdict(lambda: defaultdict(list))
    for log in logs:
        arm = log.header.arm
        cells[arm["protocol"], arm["estimator"]][arm["attack"]].append(log)
    heads = ("", "crowd", *ACCURACY, "accuracy with backdoors", *(name.removeprefix("backdoor ") for name in SUCCESS))
    lines = [_line(heads), "|---" * len(heads) + "|"]
    for protocol in PROTOCOLS:
        lines += [_line(_row(protocol, rule, runs)) for (each, rule), runs in cells.items() if each == protocol]
    return "\n".join(lines) + "\n"


def _row(protocol: str, rule: str, runs: dict[str, list[RunLog]]) -> tuple[str, ...]:
    accuracy = {name: [100 * log.final_accuracy for log in some] for name, some in runs.items()}
    success = {name: [100 * (log.rounds[-1].success or 0) for log in runs[name]] for name in SUCCESS}
    lowest = min((accuracy[name] for name in SUCCESS), key=lambda some: float(np.mean(some)))
    return (
        f"{protocol}, {rule}",
        str(_crowd(protocol, runs)),
        *(_shown(accuracy[name]) for name in ACCURACY),
        _shown(lowest),
        *(_shown(success[name]) for name in SUCCESS),
    )


def _crowd(protocol: str, runs: dict[str, list[RunLog]]) -> int:
    """Return the smallest sum of any run."""
    if protocol == "25 shards":
        return _SHARD
    opened = (each.weights for some in runs.values() for log in some for each in log.rounds if each.weights)
    return min(sum(weight > 0 for weight in weights) for weights in opened)


def _shown(values: Sequence[float]) -> str:
    return f"{np.mean(values):.1f} ± {(max(values) - min(values)) / 2:.1f}" if values else "not run"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
