"""The frontier of robust rules: what each costs without an attack, and what its worst attack does."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from f2ed.experiments.file import find, read
from f2ed.experiments.grid import Cell, expand
from f2ed.experiments.reproduction.comparison import Table
from f2ed.experiments.reproduction.outcomes import matched
from f2ed.experiments.reproduction.quoted import logs_of
from f2ed.experiments.reproduction.worst_case import Arm
from f2ed.records import RunLog

__all__ = ["Standing", "measured_frontier", "setting_table", "standings", "undominated"]

_NAME, _LATER, _AIMED = "frontier", "frontier-more", "aimed"
_BASELINE, _SEARCHED = "Mean", "adaptive backdoor"


class Standing(NamedTuple):
    """A rule in one setting, in points of percent; accuracy is lost against the plain mean without an attack."""

    setting: str
    rule: str
    cost: float
    """Accuracy lost without an attack; negative where a rule does better than the mean."""
    lost: float
    """Accuracy lost under the attack that costs most."""
    backdoor: float
    """The largest success of a backdoor."""
    row: tuple[str, ...] = ()
    """What a table shows: without an attack, then the worst accuracy, listed backdoor and searched backdoor."""
    listed: float = 0.0
    """The largest success of a backdoor that was not searched for."""
    honest: float = 0.0
    """Accuracy without an attack."""

    @property
    def worst(self) -> float:
        """The largest harm of all three."""
        return max(self.cost, self.lost, self.backdoor)


def measured_frontier(results: Path) -> list[Standing]:
    """Return the standing of each rule in each setting that was run against every attack of the file.

    A run of the second archive replaces that of the first: it is of a later version. The attack aimed at signs and
    angles counts where it was run.
    """
    cells, aimed = (expand(read(find(Path(name)))) for name in (_NAME, _AIMED))
    logs = [log for name in (_LATER, _NAME, _AIMED) for log in logs_of(results / name)]
    return standings(cells, matched([*cells, *aimed], logs), aimed)


def standings(cells: Sequence[Cell], found: Mapping[str, RunLog], further: Sequence[Cell] = ()) -> list[Standing]:
    """Return the standings, by setting and in the order of the file; rules that lack an attack are left out.

    `further` are runs that count where they were made, and that no rule is left out for.
    """
    arms: dict[str, dict[str, Arm]] = defaultdict(lambda: defaultdict(Arm))
    for cell in [*cells, *further]:
        if (log := found.get(cell.slug)) is not None:
            arms[_setting(cell)][cell.arm["estimator"]].add(cell, log)
    attacks = {cell.arm["attack"] for cell in cells}
    return [
        _standing(setting, rule, arm, rules[_BASELINE].accuracy["none"].mean)
        for setting, rules in arms.items()
        for rule, arm in rules.items()
        if attacks <= arm.accuracy.keys() and "none" in rules.get(_BASELINE, Arm()).accuracy
    ]


def _setting(cell: Cell) -> str:
    data = cell.arm.get("data") or str(cell.experiment.data.__struct_config__.tag)
    alone = "" if cell.experiment.sharded else ", no shards"
    return f"{data}, {cell.arm['partition']}{alone}"


def _standing(setting: str, rule: str, arm: Arm, baseline: float) -> Standing:
    honest, lowest = arm.accuracy["none"], arm.accuracy[arm.attacks[0]]
    backdoor = max((success.mean for success in arm.success.values()), default=0.0)
    listed = max((attack for attack in arm.success if attack != _SEARCHED), key=lambda each: arm.success[each].mean)
    searched = arm.success[_SEARCHED].text() if _SEARCHED in arm.success else "not run"
    row = honest.text(), arm.lowest(len(arm.attacks)), arm.success[listed].text(listed), searched
    cost, lost = 100 * (baseline - honest.mean), 100 * (baseline - lowest.mean)
    return Standing(setting, rule, cost, lost, 100 * backdoor, row, 100 * arm.success[listed].mean, 100 * honest.mean)


def undominated(every: Sequence[Standing]) -> list[Standing]:
    """Return the standings of one setting that no other beats in worst accuracy and worst backdoor at once."""
    return [
        each
        for each in every
        if not any(
            other.lost <= each.lost
            and other.backdoor <= each.backdoor
            and (other.lost, other.backdoor) != (each.lost, each.backdoor)
            for other in every
        )
    ]


def setting_table(every: Sequence[Standing], setting: str) -> Table:
    """Return the rules of one setting, least harm first; those that no other dominates are in bold."""
    there = sorted((each for each in every if each.setting == setting), key=lambda each: each.worst)
    best = {each.rule for each in undominated(there)}
    rows = [(f"**{each.rule}**" if each.rule in best else each.rule, *each.row) for each in there]
    return Table(
        setting, ("rule", "no attack", "worst accuracy", "worst listed backdoor", "searched backdoor"), tuple(rows)
    )
