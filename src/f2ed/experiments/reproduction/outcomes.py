"""The results of a file's runs: final values over the seeds, panel by panel.

Records are matched to runs by their settings, whatever their names; `secure` is ignored, since it changes no bit of a
result.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, final

import msgspec

from f2ed.attacks import AnyAttack, Attack, ModelReplacement
from f2ed.core.errors import ConfigError
from f2ed.experiments.grid import Cell
from f2ed.records import RunLog
from f2ed.records.grading import late_contaminated_weight
from f2ed.records.migration import migrate_settings
from f2ed.simulation import Experiment, experiment
from f2ed.simulation.header import digest

__all__ = ["Gap", "Measured", "Panel", "arm_name", "matched", "measure", "panels"]

Measure = Literal["accuracy", "success"]


@final
class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The final values of an arm: a share of one for each seed."""

    ends: dict[int, float]
    contaminated_weight: float | None = None
    """Over the last rounds; None without an attacker, and for rules without weights."""
    contaminated: int = 0
    """Contaminated shards in the last round; the maximum over the seeds."""

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return sum(self.ends.values()) / len(self.ends)

    def outnumbered(self, shards: int) -> bool:
        """Whether at least half of the shards were contaminated, so that no rule can tell which half is honest."""
        return 2 * self.contaminated >= shards

    def beside(self, other: "Measured") -> "Measured":
        """Return the values for seeds that both were run with."""
        shared = {seed: end for seed, end in self.ends.items() if seed in other.ends}
        return msgspec.structs.replace(self, ends=shared)


@final
class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One attack on one data set: the results of each arm; None for an arm that was not run."""

    data: str
    attack: str
    measure: Measure
    arms: dict[str, Measured | None]

    def gap(self, arm: str) -> "Gap | None":
        """Return how far an arm is behind the best other one, over shared seeds; None if there is no other."""
        mine = self.arms.get(arm)
        if mine is None:
            return None
        sign = 1 if self.measure == "accuracy" else -1
        gaps = []
        for name, found in self.arms.items():
            if found is not None and name != arm and found.ends.keys() & mine.ends.keys():
                here, there = mine.beside(found), found.beside(mine)
                gaps.append(Gap(sign * (there.mean - here.mean), name, here, there))
        return max(gaps, key=lambda gap: (gap.size, gap.best), default=None)


class Gap(NamedTuple):
    """How far an arm is behind the best other one (negative if ahead), and the results of both."""

    size: float
    best: str
    mine: Measured
    theirs: Measured


def matched(cells: Sequence[Cell], logs: Iterable[RunLog], *, finished: bool = True) -> dict[str, RunLog]:
    """Return the first finished log of each cell that has one, or the first unfinished one, by the cell's slug."""
    found: dict[str, RunLog] = {}
    for log in logs:
        if log.finished is not finished:
            continue
        try:
            found.setdefault(_key(experiment(migrate_settings(log.header.settings))), log)
        except ConfigError:  # settings of another version, which match no cell
            continue
    return {cell.slug: found[key] for cell in cells if (key := _key(cell.experiment)) in found}


def panels(cells: Sequence[Cell], found: Mapping[str, RunLog]) -> list[Panel]:
    """Group the cells into panels, in the order of the file."""
    grouped: dict[tuple[str, str, Measure], dict[str, list[RunLog]]] = {}
    for cell in cells:
        panel = (_data(cell), cell.arm.get("attack", "none"), measure(cell.experiment.attack))
        logs = grouped.setdefault(panel, {}).setdefault(arm_name(cell), [])
        if cell.slug in found:
            logs.append(found[cell.slug])
    return [
        Panel(
            data=data,
            attack=attack,
            measure=kind,
            arms={arm: _measured(logs, kind) if logs else None for arm, logs in arms.items()},
        )
        for (data, attack, kind), arms in grouped.items()
    ]


def measure(attack: AnyAttack | None) -> Measure:
    """Return what an attack is measured by: its success if it is targeted, else the accuracy."""
    return "success" if attack is not None and type(attack).goal is not Attack.goal else "accuracy"


def _key(it: Experiment) -> str:
    return digest(msgspec.structs.replace(it, secure=True))


def _data(cell: Cell) -> str:
    return cell.arm.get("data") or str(cell.experiment.data.__struct_config__.tag)


def arm_name(cell: Cell, *beside: str) -> str:
    """Name an arm within its panel by the settings that vary, except those shown elsewhere."""
    placed = {"seed", "data", "attack", "estimator", *beside}
    rest = {key: label for key, label in cell.arm.items() if key not in placed}
    words = [cell.arm.get("estimator", ""), *(f"{key} {label}" for key, label in rest.items())]
    return ", ".join(word for word in words if word)


def _measured(logs: Sequence[RunLog], kind: Measure) -> Measured:
    return Measured(
        ends={log.header.seed: _end(log, kind) for log in logs},
        contaminated_weight=_contaminated_weight(logs),
        contaminated=max(len(log.rounds[-1].contaminated or ()) for log in logs),
    )


def _contaminated_weight(logs: Sequence[RunLog]) -> float | None:
    late = [late_contaminated_weight(log.rounds) for log in logs if log.header.attacked]
    known = [weight for weight in late if weight is not None]
    return sum(known) / len(known) if known else None


def _end(log: RunLog, kind: Measure) -> float:
    last = log.rounds[-1]
    if kind == "accuracy":
        return log.final_accuracy
    attack = log.header.settings["attack"]
    # The released code also counts the images of the target class, a tenth of all.
    every = attack["kind"] == ModelReplacement.__struct_config__.tag and attack.get("variant") == "released"
    value = last.success_every if every else last.success
    return 0.0 if value is None else value
