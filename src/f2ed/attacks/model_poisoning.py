"""MPA, targeted model poisoning by alternating minimization (Bhagoji et al., ICML 2019)."""

from typing import Annotated, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.attacks._common.boost import Boost, boosts
from f2ed.attacks._common.goal import Exam, Examples, Goal
from f2ed.attacks._common.training import Crew, Pull, Schedule
from f2ed.attacks._common.view import Knowledge
from f2ed.attacks.base import Attack, Positive, Variant
from f2ed.core.arrays import Array, namespace
from f2ed.core.errors import ConfigError
from f2ed.estimators._linalg.gram import like

__all__ = ["MPA"]

Count = Annotated[int, msgspec.Meta(ge=1)]

_PASSES = 10
"""Over the chosen images alone, for each local epoch: enough to learn them."""


class MPA(Attack, frozen=True, kw_only=True, tag="model-poisoning"):
    """Make the model mistake a few chosen test images, while the update stays near an honest one.

    The malicious clients first train honestly to see where that leads. Then they alternate: `benign_steps` on their
    own data, held to that point by `rho`/2 times the squared distance, and one on the chosen images with wrong
    labels, boosted. That one is a step of Adam at `lr`, as in the inventors' code: with the honest clients' plain SGD
    (`lr` and `optimizer` none) a small learning rate makes it too short to matter. With strategy = "explicit" they
    train honestly, then on the chosen images alone, and boost all that the latter moved: stronger, easier to see.
    Success is the share of the `images` that get the label wanted.

    The authors' variant knows no honest reference: it trains on the chosen images, and holds to a point a tenth of
    that way in the other direction; it takes one pass over its own data, then many over the chosen images, boosted
    by 2; and these images are shown with rows and columns exchanged.
    """

    title = "Model poisoning"
    family = "targeted"
    paper = "Bhagoji et al., ICML 2019"
    aliases = ("mpa",)

    knowledge: Knowledge = "partial"
    strategy: Literal["alternate", "explicit"] = "alternate"
    images: Count = 10
    boost: Boost = "replacement"
    rho: Annotated[float, msgspec.Meta(ge=0.0)] = 1e-4
    benign_steps: Count = 10
    epochs: Count | None = None
    lr: Positive | None = 1e-3
    optimizer: Literal["sgd", "adam"] | None = "adam"
    variant: Variant = "original"

    def goal(self, exam: Exam) -> Goal:
        """Draw test images, and a wrong label for each."""
        labels = exam.test.labels
        if self.images > len(labels):
            raise ConfigError(f"mpa: {self.images} images asked for, but the test set has {len(labels)}; ask for fewer")
        chosen = np.sort(exam.rng.permutation(len(labels))[: self.images])
        away = exam.rng.integers(1, exam.classes, self.images)
        wanted = (labels[chosen] + _as_labels(away, labels)) % exam.classes
        images = exam.test.images[chosen]
        if self.variant == "released":
            images = namespace(images).swapaxes(images, -1, -2)
        return Goal(images, wanted, labels[chosen])

    def train(self, crew: Crew) -> Array:
        """Return the update with its boost in it."""
        if crew.goal is None:
            raise ConfigError("mpa trains on the images of its goal; ask it for one at the start of the run")
        lure = [Examples(crew.goal.images, crew.goal.wanted)] * len(crew.data)
        if self.variant == "released":
            return self._as_authors(crew, lure)
        return self._alternate(crew, lure) if self.strategy == "alternate" else self._explicit(crew, lure)

    def _alternate(self, crew: Crew, lure: list[Examples]) -> Array:
        anchor = Pull(self.rho, crew.model + crew.train(crew.data))
        once, one_step = Schedule(epochs=1), self._schedule(1, self.images)
        here = anchor.center * 0 + crew.model
        for _ in range(self.epochs or crew.honest.epochs or 1):
            for part in _in_parts(crew, self.benign_steps * (crew.honest.batch_size or 1)):
                here = here + crew.train(part, schedule=once, start=here, pull=anchor)
                here = here + self._boosted(crew.train(lure, schedule=one_step, start=here), crew)
        return here - crew.model

    def _explicit(self, crew: Crew, lure: list[Examples]) -> Array:
        honest = crew.train(crew.data)
        passes = self._schedule(self.epochs or _PASSES * (crew.honest.epochs or 1))
        return honest + self._boosted(crew.train(lure, schedule=passes, start=crew.model + honest), crew)

    def _boosted(self, moved: Array, crew: Crew) -> Array:
        factors = boosts(self.boost, crew.shards, crew.malicious, shard_aware=self.shard_aware)
        return like(moved, factors)[:, None] * moved

    def _schedule(self, epochs: int | None, batch: int | None = None) -> Schedule:
        momentum = 0.0 if self.optimizer == "adam" else None
        return Schedule(epochs=epochs, lr=self.lr, momentum=momentum, batch_size=batch, optimizer=self.optimizer)

    def _as_authors(self, crew: Crew, lure: list[Examples]) -> Array:
        back = crew.model - crew.train(lure) / 10
        here = crew.model + crew.train(crew.data, schedule=Schedule(epochs=1), pull=Pull(2e-3, back))
        passes = min(len(data.labels) for data in crew.data) // self.images + 1
        return here - crew.model + 2 * crew.train(lure, schedule=Schedule(epochs=passes), start=here)


def _in_parts(crew: Crew, size: int) -> list[list[Examples]]:
    """Cut every client's data, in a new order, into as many parts as the smallest one gives of this size."""
    parts = max(min(len(data.labels) for data in crew.data) // size, 1)
    orders = [np.array_split(crew.rng.permutation(len(data.labels)), parts) for data in crew.data]
    return [
        [
            Examples(data.images[order[part]], data.labels[order[part]])
            for data, order in zip(crew.data, orders, strict=True)
        ]
        for part in range(parts)
    ]


def _as_labels(numbers: npt.NDArray[np.int64], labels: Array) -> Array:
    return numbers.astype(labels.dtype) if isinstance(labels, np.ndarray) else labels.new_tensor(numbers)
