"""MPA, targeted model poisoning by alternating minimization (Bhagoji et al., ICML 2019)."""

from typing import Annotated, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.attacks._common.boost import Boost, boosts
from f2ed.attacks._common.goal import EvaluationData, Examples, Goal
from f2ed.attacks._common.training import MaliciousClients, ProximalTerm, TrainingOverrides
from f2ed.attacks._common.view import Knowledge
from f2ed.attacks.base import Attack, Positive, Variant
from f2ed.core.arrays import Array, like, namespace
from f2ed.core.errors import ConfigError

__all__ = ["ModelPoisoning"]

Count = Annotated[int, msgspec.Meta(ge=1)]

_PASSES = 10
"""Over the chosen images alone, for each local epoch: enough to learn them."""


class ModelPoisoning(Attack, frozen=True, kw_only=True, tag="model-poisoning"):
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

    def goal(self, evaluation: EvaluationData) -> Goal:
        """Draw test images, and a wrong label for each."""
        labels = evaluation.test.labels
        if self.images > len(labels):
            raise ConfigError(f"mpa: {self.images} images asked for, but the test set has {len(labels)}; ask for fewer")
        chosen = np.sort(evaluation.rng.permutation(len(labels))[: self.images])
        away = evaluation.rng.integers(1, evaluation.classes, self.images)
        wanted = (labels[chosen] + _as_labels(away, labels)) % evaluation.classes
        images = evaluation.test.images[chosen]
        if self.variant == "released":
            images = namespace(images).swapaxes(images, -1, -2)
        return Goal(images, wanted, labels[chosen])

    def train(self, clients: MaliciousClients) -> Array:
        """Return the update with its boost in it."""
        if clients.goal is None:
            raise ConfigError("mpa trains on the images of its goal; ask it for one at the start of the run")
        lure = [Examples(clients.goal.images, clients.goal.wanted)] * len(clients.data)
        if self.variant == "released":
            return self._as_authors(clients, lure)
        return self._alternate(clients, lure) if self.strategy == "alternate" else self._explicit(clients, lure)

    def _alternate(self, clients: MaliciousClients, lure: list[Examples]) -> Array:
        anchor = ProximalTerm(self.rho, clients.model + clients.train(clients.data))
        once, one_step = TrainingOverrides(epochs=1), self._overrides(1, self.images)
        here = anchor.center * 0 + clients.model
        for _ in range(self.epochs or clients.honest.epochs or 1):
            for part in _in_parts(clients, self.benign_steps * (clients.honest.batch_size or 1)):
                here = here + clients.train(part, overrides=once, start=here, proximal=anchor)
                here = here + self._boosted(clients.train(lure, overrides=one_step, start=here), clients)
        return here - clients.model

    def _explicit(self, clients: MaliciousClients, lure: list[Examples]) -> Array:
        honest = clients.train(clients.data)
        passes = self._overrides(self.epochs or _PASSES * (clients.honest.epochs or 1))
        return honest + self._boosted(clients.train(lure, overrides=passes, start=clients.model + honest), clients)

    def _boosted(self, moved: Array, clients: MaliciousClients) -> Array:
        factors = boosts(self.boost, clients.shards, clients.malicious, shard_aware=self.shard_aware)
        return like(moved, factors)[:, None] * moved

    def _overrides(self, epochs: int | None, batch: int | None = None) -> TrainingOverrides:
        momentum = 0.0 if self.optimizer == "adam" else None
        return TrainingOverrides(
            epochs=epochs, lr=self.lr, momentum=momentum, batch_size=batch, optimizer=self.optimizer
        )

    def _as_authors(self, clients: MaliciousClients, lure: list[Examples]) -> Array:
        back = clients.model - clients.train(lure) / 10
        here = clients.model + clients.train(
            clients.data, overrides=TrainingOverrides(epochs=1), proximal=ProximalTerm(2e-3, back)
        )
        passes = min(len(data.labels) for data in clients.data) // self.images + 1
        return here - clients.model + 2 * clients.train(lure, overrides=TrainingOverrides(epochs=passes), start=here)


def _in_parts(clients: MaliciousClients, size: int) -> list[list[Examples]]:
    """Cut every client's data, in a new order, into as many parts as the smallest one gives of this size."""
    parts = max(min(len(data.labels) for data in clients.data) // size, 1)
    orders = [np.array_split(clients.rng.permutation(len(data.labels)), parts) for data in clients.data]
    return [
        [
            Examples(data.images[order[part]], data.labels[order[part]])
            for data, order in zip(clients.data, orders, strict=True)
        ]
        for part in range(parts)
    ]


def _as_labels(numbers: npt.NDArray[np.int64], labels: Array) -> Array:
    return numbers.astype(labels.dtype) if isinstance(labels, np.ndarray) else labels.new_tensor(numbers)
