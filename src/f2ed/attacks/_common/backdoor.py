"""The bases of all backdoors: some images get a trigger and a wrong label, and the update may be boosted."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Self

import msgspec

from f2ed.attacks._common.boost import Boost, boosts
from f2ed.attacks._common.goal import EvaluationData, Examples, Goal, Palette
from f2ed.attacks._common.scene import Scene
from f2ed.attacks._common.training import MaliciousClients, TrainingOverrides
from f2ed.attacks._common.triggers import Box, Square, paint, poisoned
from f2ed.attacks._common.view import Knowledge
from f2ed.attacks.base import Attack, Positive
from f2ed.core.arrays import Array, namespace
from f2ed.core.errors import ConfigError

__all__ = ["Backdoor", "Count", "Label", "Poisoning", "Share", "SquareBackdoor", "check_label"]

Count = Annotated[int, msgspec.Meta(ge=1)]
Label = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]


class Poisoning(Attack, frozen=True, kw_only=True):
    """Train on clean and poisoned images together; training settings default to those of the honest clients."""

    knowledge: Knowledge = "partial"
    target: Label = 2
    share: Share = 20 / 64
    """Of each client's images, drawn in every round; on average also of each batch."""
    boost: Boost = 1.0
    epochs: Count | None = None
    lr: Positive | None = None
    momentum: Annotated[float, msgspec.Meta(ge=0.0, lt=1.0)] | None = None
    weight_decay: Annotated[float, msgspec.Meta(ge=0.0)] | None = None

    def as_run(self) -> Self:
        """Return the effective settings: a variant may fix some."""
        return self

    @abstractmethod
    def poison(self, clients: MaliciousClients) -> list[Examples]:
        """Return the training data of each malicious client."""

    def train(self, clients: MaliciousClients) -> Array:
        """Train on the poisoned data."""
        return clients.train(self.poison(clients), overrides=self.overrides)

    def craft(self, scene: Scene) -> Array:
        """Boost the trained update."""
        view = scene.view
        factors = boosts(self.as_run().boost, view.shards, view.malicious, shard_aware=self.shard_aware)
        return scene.like(factors)[:, None] * scene.own

    @property
    def overrides(self) -> TrainingOverrides:
        """The training settings, with None for those of the honest clients."""
        it = self.as_run()
        return TrainingOverrides(it.epochs, it.lr, it.momentum, it.weight_decay)


class Backdoor(Poisoning, frozen=True, kw_only=True):
    """Give poisoned images a trigger and the label `target`."""

    blend: Share | None = None
    """How opaque the trigger is, in training and afterwards; by default fully."""

    @abstractmethod
    def marks(self, images: Array, rank: int | None) -> Sequence[Box]:
        """Return the trigger of the malicious client of this rank for images of this shape; None: the one measured."""

    @abstractmethod
    def shade(self, palette: Palette) -> float:
        """Return the value of the trigger's pixels."""

    def triggered(self, images: Array, palette: Palette) -> Array:
        """Return a copy of the images with the trigger whose success is measured."""
        return paint(images, self.marks(images, None), self.shade(palette), self.blend or 1.0)

    def goal(self, evaluation: EvaluationData) -> Goal:
        """Ask for the target label on every test image with the trigger."""
        target, labels = self.as_run().target, evaluation.test.labels
        check_label("target", target, evaluation.classes)
        wanted = namespace(labels).full_like(labels, target)
        return Goal(self.triggered(evaluation.test.images, evaluation.palette), wanted, labels)

    def poison(self, clients: MaliciousClients) -> list[Examples]:
        """Return the training data of each malicious client."""
        it, shade, blend = self.as_run(), self.shade(clients.palette), self.blend or 1.0
        return [
            poisoned(data, it.share, self.marks(data.images, rank), shade, it.target, clients.rng, blend=blend)
            for rank, data in enumerate(clients.data)
        ]


class SquareBackdoor(Backdoor, frozen=True, kw_only=True):
    """Use the same square as the trigger of all malicious clients."""

    trigger: Square = Square()

    def marks(self, images: Array, rank: int | None) -> Sequence[Box]:  # noqa: ARG002  the same for all clients
        """Return the square."""
        return self.trigger.boxes(images)

    def shade(self, palette: Palette) -> float:
        """Paint before normalization."""
        return palette.shade(self.trigger.value)


def check_label(setting: str, label: int, classes: int) -> None:
    """Refuse a label that the data do not have."""
    if label >= classes:
        raise ConfigError(
            f"invalid {setting} label {label}: the data has {classes} classes, so the largest is {classes - 1}"
        )
