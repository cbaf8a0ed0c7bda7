"""The training of malicious clients: on which data, and with which settings.

Attacks know nothing about models or optimizers. The simulation passes them `MaliciousClients`, whose `train` trains all
malicious clients at once; an attack may call it any number of times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import numpy as np

from f2ed.attacks._common.goal import Examples, Goal, Palette
from f2ed.core.arrays import Array
from f2ed.protocol.sharding import ClientId

__all__ = ["NO_OVERRIDES", "MaliciousClients", "ProximalTerm", "Slopes", "Train", "TrainingOverrides"]


@dataclass(frozen=True)
class TrainingOverrides:
    """Training settings of a malicious client; None means the setting of the honest clients."""

    epochs: int | None = None
    lr: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    batch_size: int | None = None
    optimizer: Literal["sgd", "adam"] | None = None


NO_OVERRIDES = TrainingOverrides()


class ProximalTerm(NamedTuple):
    """A penalty added to the loss: strength/2 times the squared distance from the center, [m, d] or [d]."""

    strength: float
    center: Array


class Train(Protocol):
    """Local training of all malicious clients at once."""

    def __call__(
        self,
        data: Sequence[Examples],
        *,
        overrides: TrainingOverrides = NO_OVERRIDES,
        start: Array | None = None,
        proximal: ProximalTerm | None = None,
        mask: Array | None = None,
    ) -> Array:
        """Train each client on its own data; return the updates, [m, d].

        All start from the global model, or each from its row of `start`. Weights where `mask` [m, d] is false are not
        changed.
        """


class Slopes(Protocol):
    """How the loss changes with the images, which the attacker may change too."""

    def __call__(self, images: Array, labels: Array, *, model: Array | None = None) -> Array:
        """Return the gradient of the summed loss with respect to each image; of the global model unless stated."""


@dataclass(frozen=True, eq=False)
class MaliciousClients:
    """The malicious clients of one round; `data` is in the order of `malicious`."""

    data: tuple[Examples, ...]
    train: Train
    model: Array
    """The global model, [d]."""
    honest: TrainingOverrides
    """The training settings of the honest clients; none is None."""
    shards: tuple[tuple[ClientId, ...], ...]
    malicious: tuple[ClientId, ...]
    classes: int
    palette: Palette
    goal: Goal | None
    """The goal that the same attack returned at the start of the run, or in training that of the round."""
    round: int
    rng: np.random.Generator = field(repr=False)
    tensors: tuple[int, ...] = ()
    """The sizes of the model's parameter tensors, where the attacker is told."""
    slopes: Slopes | None = None
    """For attacks that learn a trigger."""
