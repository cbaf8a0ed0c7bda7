"""Print what each schedule of shards cost: the mean over seeds, and the lowest and the highest.

f2ed run experiments/schedules.toml --out results
python docs/scripts/schedules.py results/schedules
"""

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from f2ed.core.randomness import stream
from f2ed.records import RunLog, read_folder
from f2ed.simulation import experiment

SCHEDULES = ("fixed", "every-k-rounds", "batches", "every-round")
ATTACKS = {"none": "no attack", "accuracy attack": "accuracy attack", "backdoor": "backdoor"}


def main(folder: Path) -> None:
    """Print the table."""
    found: dict[str, dict[tuple[str, str], list[RunLog]]] = defaultdict(lambda: defaultdict(list))
    for log in read_folder(folder):
        arm = log.header.arm
        found[arm["partition"]][arm["attack"], arm["schedule"]].append(log)
    lines = ["| | " + " | ".join(SCHEDULES) + " |", "|---" * (len(SCHEDULES) + 1) + "|"]
    for partition, cells in sorted(found.items()):
        for attack, label in ATTACKS.items():
            runs, about = [cells[attack, schedule] for schedule in SCHEDULES], f"{partition}, {label}"
            lines.append(_row(f"{about}: accuracy, %", runs, lambda log: 100 * log.rounds[-1].accuracy))
            if attack == "backdoor":
                lines.append(_row(f"{about}: success, %", runs, lambda log: 100 * (log.rounds[-1].success or 0)))
            if attack != "none":
                lines.append(_row(f"{about}: weight of spoilt shards, %", runs, _believed))
                lines.append(_row(f"{about}: honest clients never heard", runs, _never_heard))
    runs = [[log for (_, name), logs in cells.items() if name == schedule for log in logs] for schedule in SCHEDULES]
    lines.append(_row("clients determined by all rounds", runs, _exposed))
    lines.append(_row("smallest group determined", runs, _crowd))
    sys.stdout.write("\n".join(lines) + "\n")


def _row(label: str, cells: list[list[RunLog]], measure) -> str:  # noqa: ANN001  a number of a log
    return f"| {label} | " + " | ".join(_spread([measure(log) for log in logs]) for logs in cells) + " |"


def _spread(values: list[float]) -> str:
    if not values:
        return "none"
    low, mean, high = min(values), float(np.mean(values)), max(values)
    return f"{mean:.0f}" if low == high == round(mean) else f"{mean:.1f} ({low:.1f} to {high:.1f})"


def _believed(log: RunLog) -> float:
    return 100 * float(np.mean([record.contaminated_weight or 0.0 for record in log.rounds]))


def _never_heard(log: RunLog) -> float:
    """Count the honest clients whose shard had less than half of an equal say in every round."""
    run, heard = experiment(log.header.settings), set()
    for record in log.rounds:
        seed = stream(run.seed, "deal").bytes(32)
        roster = dict.fromkeys(range(run.clients), b"")
        plan = run.schedule.assign(roster, shards=run.rows, epoch=run.schedule(record.round), seed=seed)
        heard |= {
            client
            for members, weight in zip(plan.shards, record.weights, strict=True)
            for client in members
            if weight >= 0.5 / run.rows
        }
    return len(set(range(run.clients)) - heard - set(log.header.malicious))


def _exposed(log: RunLog) -> float:
    return log.rounds[-1].leak.exposed


def _crowd(log: RunLog) -> float:
    return log.rounds[-1].leak.crowd


main(Path(sys.argv[1]))
