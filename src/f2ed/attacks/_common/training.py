"""The malicious clients at work: what an attack may set them to train on, and how.

Attacks know nothing of models or optimizers. Whoever runs a simulation hands them a `MaliciousClients`, whose `train`
does the work for all malicious clients at once; an attack calls it as often as it likes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import numpy as np

from f2ed.attacks._common.goal import Examples, Goal, Palette
from f2ed.core.arrays import Array
from f2ed.protocol.sharding import ClientId

__all__ = ["NO_OVERRIDES", "MaliciousClients", "ProximalTerm", "Train", "TrainingOverrides"]


@dataclass(frozen=True)
class TrainingOverrides:
    """How a client trains; None means as the honest clients do."""

    epochs: int | None = None
    lr: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    batch_size: int | None = None
    optimizer: Literal["sgd", "adam"] | None = None


NO_OVERRIDES = TrainingOverrides()


class ProximalTerm(NamedTuple):
    """A penalty of strength/2 times the squared distance from the center, [m, d] or [d], added to the loss."""

    strength: float
    center: Array


class Train(Protocol):
    """Local training, of all malicious clients at once."""

    def __call__(
        self,
        data: Sequence[Examples],
        *,
        overrides: TrainingOverrides = NO_OVERRIDES,
        start: Array | None = None,
        proximal: ProximalTerm | None = None,
        mask: Array | None = None,
    ) -> Array:
        """Train each client on its own data; return by how much each moved, [m, d].

        All start from the global model, or each from its row of `start`. Where `mask` [m, d] is false, a weight
        stays as it is.
        """


@dataclass(frozen=True, eq=False)
class MaliciousClients:
    """The malicious clients of one round; `data` is in the order of `malicious`."""

    data: tuple[Examples, ...]
    train: Train
    model: Array
    """The global model, [d]."""
    honest: TrainingOverrides
    """How the honest clients train; no entry is None."""
    shards: tuple[tuple[ClientId, ...], ...]
    malicious: tuple[ClientId, ...]
    classes: int
    palette: Palette
    goal: Goal | None
    """What the same attack answered at the start of the run."""
    round: int
    rng: np.random.Generator = field(repr=False)
