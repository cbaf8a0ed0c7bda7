"""What each sharding schedule costs: the mean over seeds, with the lowest and the highest."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import nan

import numpy as np

from f2ed.core.randomness import stream
from f2ed.records import RunLog
from f2ed.records.grading import late_contaminated_weight
from f2ed.records.migration import migrate_settings
from f2ed.simulation import experiment

__all__ = ["schedule_costs"]

SCHEDULES = ("fixed", "every-k-rounds", "batches", "every-round")
ATTACKS = {"none": "no attack", "accuracy attack": "accuracy attack", "backdoor": "backdoor"}


def schedule_costs(logs: Sequence[RunLog]) -> str:
    """Return the table as Markdown."""
    found: dict[str, dict[tuple[str, str], list[RunLog]]] = defaultdict(lambda: defaultdict(list))
    for log in logs:
        arm = log.header.arm
        found[arm["partition"]][arm["attack"], arm["schedule"]].append(log)
    lines = ["| | " + " | ".join(SCHEDULES) + " |", "|---" * (len(SCHEDULES) + 1) + "|"]
    for partition, cells in sorted(found.items()):
        for attack, label in ATTACKS.items():
            runs, about = [cells[attack, schedule] for schedule in SCHEDULES], f"{partition}, {label}"
            lines.append(_row(f"{about}: accuracy, %", runs, lambda log: 100 * log.final_accuracy))
            if attack == "backdoor":
                lines.append(_row(f"{about}: success, %", runs, lambda log: 100 * (log.rounds[-1].success or 0)))
            if attack != "none":
                lines.append(_row(f"{about}: weight on contaminated shards, %", runs, _contaminated_weight))
                lines.append(_row(f"{about}: honest clients without weight", runs, _without_influence))
    runs = [[log for (_, name), logs in cells.items() if name == schedule for log in logs] for schedule in SCHEDULES]
    lines.append(_row("clients determined by all rounds", runs, _exposed))
    lines.append(_row("smallest group determined", runs, _crowd))
    return "\n".join(lines) + "\n"


def _row(label: str, cells: list[list[RunLog]], measure: Callable[[RunLog], float]) -> str:
    return f"| {label} | " + " | ".join(_spread([measure(log) for log in logs]) for logs in cells) + " |"


def _spread(values: list[float]) -> str:
    if not values:
        return "none"
    low, mean, high = min(values), float(np.mean(values)), max(values)
    return f"{mean:.0f}" if low == high == round(mean) else f"{mean:.1f} ({low:.1f} to {high:.1f})"


def _contaminated_weight(log: RunLog) -> float:
    weight = late_contaminated_weight(log.rounds)
    return nan if weight is None else 100 * weight


def _without_influence(log: RunLog) -> float:
    """Count the honest clients whose shard had less than half of an equal weight in every round."""
    run, influential = experiment(migrate_settings(log.header.settings)), set()
    for record in log.rounds:
        seed = stream(run.seed, "deal").bytes(32)
        roster = dict.fromkeys(range(run.clients), b"")
        plan = run.schedule.assign(roster, shards=run.rows, epoch=run.schedule(record.round), seed=seed)
        influential |= {
            client
            for members, weight in zip(plan.shards, record.weights or (), strict=True)
            for client in members
            if weight >= 0.5 / run.rows
        }
    return len(set(range(run.clients)) - influential - set(log.header.malicious or ()))


def _exposed(log: RunLog) -> float:
    leak = log.rounds[-1].leak
    return nan if leak is None else leak.exposed


def _crowd(log: RunLog) -> float:
    leak = log.rounds[-1].leak
    return nan if leak is None else leak.crowd
