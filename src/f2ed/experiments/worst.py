"""The worst case: for every rule, with and without shards, what the attack that hurts it most does to it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from f2ed.experiments.comparison import Table
from f2ed.experiments.grid import Cell
from f2ed.experiments.outcomes import measure
from f2ed.records import RunLog

__all__ = ["worst_case"]


class _End(NamedTuple):
    shards: str
    malicious: int
    rule: str
    attack: str
    accuracy: float
    success: float | None


def worst_case(cells: Sequence[Cell], found: Mapping[str, RunLog]) -> Table:
    """Return, for each rule and each number of malicious clients, the lowest accuracy and the largest success.

    Each stands with the attack that did it, and with how many attacks were run where it was not all of them. The most
    malicious clients come first, and rules in the order of their worst accuracy with so many, best first.
    """
    ends = list(_ends(cells, found))
    counts = sorted({cell.experiment.malicious for cell in cells}, reverse=True)
    attacks = len({cell.arm.get("attack", "none") for cell in cells} - {"none"})
    columns = (f"{count} malicious: {what}" for count in counts for what in ("accuracy", "backdoor"))
    head = ("shards", "rule", "no attack: accuracy", *columns)
    arms = dict.fromkeys((cell.arm.get("shards", ""), cell.arm.get("estimator", "")) for cell in cells)
    rows = []
    for shards, rule in arms:
        here = [end for end in ends if (end.shards, end.rule) == (shards, rule)]
        if here:
            calm = [end for end in here if end.attack == "none"]
            cut = [[end for end in here if end.malicious == count and end.attack != "none"] for count in counts]
            texts = [text for several in cut for text in (_lowest(several, attacks), _largest(several))]
            lowest = min((end.accuracy for end in cut[0]), default=0.0)
            calmly = f"{100 * calm[-1].accuracy:.1f}" if calm else "not run"
            rows.append((shards, -lowest, (shards, rule, calmly, *texts)))
    order = list(dict.fromkeys(shards for shards, _ in arms))
    rows.sort(key=lambda row: (order.index(row[0]), row[1]))
    return Table("The worst case", head, tuple(texts for _, _, texts in rows), 2)


def _ends(cells: Sequence[Cell], found: Mapping[str, RunLog]) -> Iterator[_End]:
    for cell in cells:
        if (log := found.get(cell.slug)) is None:
            continue
        last = log.rounds[-1]
        targeted = measure(cell.experiment.attack) == "success"
        yield _End(
            cell.arm.get("shards", ""),
            cell.experiment.malicious,
            cell.arm.get("estimator", ""),
            cell.arm.get("attack", "none"),
            last.accuracy,
            last.success if targeted else None,
        )


def _lowest(ends: Sequence[_End], attacks: int) -> str:
    if not ends:
        return "not run"
    worst = min(ends, key=lambda end: end.accuracy)
    some = f", of {len(ends)} tried" if len(ends) < attacks else ""
    return f"{100 * worst.accuracy:.1f} ({worst.attack}{some})"


def _largest(ends: Sequence[_End]) -> str:
    targeted = [(end.success, end.attack) for end in ends if end.success is not None]
    if not targeted:
        return "not run"
    success, attack = max(targeted)
    return f"{100 * success:.1f} ({attack})"
