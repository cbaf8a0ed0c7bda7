"""What a search attacks: a rule in a setting, without an attack."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.experiments.grid import Cell
from f2ed.simulation import Experiment

__all__ = ["Target", "seeded", "targets_of"]


class Target(NamedTuple):
    """A setting to attack."""

    label: str
    setting: str
    """In what it differs from other targets, the rule apart."""
    rule: str
    experiment: Experiment

    def honest_name(self, further: int) -> str:
        """Return the name of the run without an attack, with this much added to the seed."""
        return f"{self.label}, no attack" + (f", seed +{further}" if further else "")


def targets_of(cells: Sequence[Cell]) -> tuple[Target, ...]:
    """Return what is attacked; refuse cells that cannot be."""
    if not cells:
        raise ConfigError("there is nothing to attack; name at least one rule")
    for cell in cells:
        if cell.experiment.attack is not None:
            raise ConfigError(f"{cell.name}: a search chooses the attack; state none")
        if not cell.experiment.malicious:
            raise ConfigError(f"{cell.name}: there are no malicious clients; state malicious = 1 or more")
    distinct = len({cell.name for cell in cells}) == len(cells)
    return tuple(_target(cell, distinct=distinct) for cell in cells)


def seeded(experiment: Experiment, further: int) -> Experiment:
    """Return the experiment with another seed."""
    return msgspec.structs.replace(experiment, seed=experiment.seed + further)


def _target(cell: Cell, *, distinct: bool) -> Target:
    label = cell.name if distinct else f"{cell.part}, {cell.name}"
    setting = ", ".join(value for name, value in cell.arm.items() if name != "estimator")
    return Target(label, setting or cell.part, cell.arm.get("estimator", cell.name), cell.experiment)
