"""The worst case: for every rule, with and without shards, the most harmful attack and its effect."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from f2ed.experiments.grid import Cell
from f2ed.experiments.reproduction.comparison import Table
from f2ed.experiments.reproduction.outcomes import arm_name, measure
from f2ed.records import RunLog
from f2ed.records.grading import grade

__all__ = ["Arm", "broken", "worst_case"]


class _Seeds(list[float]):
    """The final values of one arm under one attack, a share of one for each seed."""

    @property
    def mean(self) -> float:
        return sum(self) / len(self)

    def text(self, attack: str = "") -> str:
        """Format the mean in percent, half the range over several seeds, and the attack."""
        spread = f" ± {50 * (max(self) - min(self)):.1f}" if len(self) > 1 else ""
        return f"{100 * self.mean:.1f}{spread}{f' ({attack})' if attack else ''}"


class Arm:
    """A rule at one shard count and one number of malicious clients: final values by attack."""

    def __init__(self) -> None:
        self.accuracy: dict[str, _Seeds] = defaultdict(_Seeds)
        self.success: dict[str, _Seeds] = defaultdict(_Seeds)

    def add(self, cell: Cell, log: RunLog) -> None:
        """Add a run."""
        last, attack = log.rounds[-1], cell.arm.get("attack", "none")
        self.accuracy[attack].append(log.final_accuracy)
        if measure(cell.experiment.attack) == "success" and last.success is not None:
            self.success[attack].append(last.success)

    @property
    def attacks(self) -> list[str]:
        """The attacks that were run, the most harmful to accuracy first."""
        tried = [attack for attack in self.accuracy if attack != "none"]
        return sorted(tried, key=lambda attack: self.accuracy[attack].mean)

    def lowest(self, attacks: int) -> str:
        """Format the lowest accuracy under an attack; `attacks` is how many there are to try."""
        if not self.attacks:
            return "not run"
        some = f", of {len(self.attacks)} tried" if len(self.attacks) < attacks else ""
        return self.accuracy[self.attacks[0]].text(self.attacks[0] + some)

    def largest(self) -> str:
        """Format the largest success of a backdoor."""
        worst = max(self.success, key=lambda attack: self.success[attack].mean, default=None)
        return "not run" if worst is None else self.success[worst].text(worst)


def worst_case(cells: Sequence[Cell], found: Mapping[str, RunLog]) -> Table:
    """Return, for each rule and each number of malicious clients, the lowest accuracy and the largest success.

    Each is a mean over the seeds, with the attack that caused it, and the number of attacks if not all were run. The
    largest number of malicious clients comes first; rules are ordered by their worst accuracy there, best first.
    """
    arms: dict[tuple[str, str], dict[int, Arm]] = defaultdict(lambda: defaultdict(Arm))
    for cell in cells:
        if (log := found.get(cell.slug)) is not None:
            place = cell.arm.get("shards", ""), arm_name(cell, "shards", "malicious")
            arms[place][cell.experiment.malicious].add(cell, log)
    counts = sorted({cell.experiment.malicious for cell in cells}, reverse=True)
    attacks = len({cell.arm.get("attack", "none") for cell in cells} - {"none"})
    order = list(dict.fromkeys(cell.arm.get("shards", "") for cell in cells))
    rows = []
    for (shards, rule), by_count in arms.items():
        texts = [text for count in counts for text in (by_count[count].lowest(attacks), by_count[count].largest())]
        most = by_count[counts[0]]
        lowest = most.accuracy[most.attacks[0]].mean if most.attacks else 0.0
        baseline = next((arm.accuracy["none"].text() for arm in by_count.values() if "none" in arm.accuracy), "not run")
        rows.append((order.index(shards), -lowest, (shards, rule, baseline, *texts)))
    columns = (f"{count} malicious: {what}" for count in counts for what in ("accuracy", "backdoor"))
    head = ("shards", "rule", "no attack: accuracy", *columns)
    return Table("Worst case", head, tuple(texts for *_, texts in sorted(rows)), 2)


def broken(cells: Sequence[Cell], found: Mapping[str, RunLog], rule: str) -> dict[tuple[str, int], list[str]]:
    """Return, by shards and number of malicious clients, the attacks against which a rule does not hold, worst first.

    The accuracy is compared with the same rule without an attack; a grade is that of all records.
    """
    arms: dict[tuple[str, int], Arm] = defaultdict(Arm)
    for cell in cells:
        if (log := found.get(cell.slug)) is not None and arm_name(cell, "shards", "malicious") == rule:
            arms[cell.arm.get("shards", ""), cell.experiment.malicious].add(cell, log)
    honest = {shards: arm.accuracy["none"].mean for (shards, _), arm in arms.items() if "none" in arm.accuracy}
    return {place: list(_unheld(arm, honest.get(place[0]))) for place, arm in arms.items()}


def _unheld(arm: Arm, honest: float | None) -> Iterator[str]:
    for attack in arm.attacks:
        accuracy, success = arm.accuracy[attack], arm.success.get(attack)
        lost = None if honest is None else honest - accuracy.mean
        if grade(lost, None if success is None else success.mean) in {"degraded", "broken"}:
            text = "" if success is None else f", success {success.text()} %"
            yield f"{attack} (accuracy {accuracy.text()} %{text})"
