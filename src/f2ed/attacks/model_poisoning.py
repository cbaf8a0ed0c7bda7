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
"""Passes over the target images per local epoch: enough to learn them."""


class ModelPoisoning(Attack, frozen=True, kw_only=True, tag="model-poisoning"):
    """Make the model misclassify a few target images, with an update that stays close to an honest one.

    The malicious clients first train honestly, which gives a reference. Then they alternate: `benign_steps` on their
    own data, kept near the reference by `rho`/2 times the squared distance, and one step on the target images with
    wrong labels, boosted. That step uses Adam at `lr`, as in the original code: with the honest clients' plain SGD
    (`lr` and `optimizer` none) it is too short to matter at small learning rates. With strategy = "explicit" they train
    honestly, then on the target images alone, and boost the latter update: stronger, but easier to detect. Success is
    the share of the target images that get the wrong label.

    The released variant has no honest reference: it trains on the target images, and stays near a point a tenth of that
    way in the opposite direction; it makes one pass over its own data, then many over the target images, boosted by 2;
    and these images are transposed.
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
        """Draw test images, and a wrong label for each of them."""
        labels = evaluation.test.labels
        if self.images > len(labels):
            raise ConfigError(f"model-poisoning: images = {self.images}, but the test set has {len(labels)}; use fewer")
        chosen = np.sort(evaluation.rng.permutation(len(labels))[: self.images])
        away = evaluation.rng.integers(1, evaluation.classes, self.images)
        wanted = (labels[chosen] + _as_labels(away, labels)) % evaluation.classes
        images = evaluation.test.images[chosen]
        if self.variant == "released":
            images = namespace(images).swapaxes(images, -1, -2)
        return Goal(images, wanted, labels[chosen])

    def train(self, clients: MaliciousClients) -> Array:
        """Return the update, already boosted."""
        if clients.goal is None:
            raise ConfigError("model-poisoning trains on the images of its goal: call goal() at the start of the run")
        targets = [Examples(clients.goal.images, clients.goal.wanted)] * len(clients.data)
        if self.variant == "released":
            return self._released(clients, targets)
        return self._alternate(clients, targets) if self.strategy == "alternate" else self._explicit(clients, targets)

    def _alternate(self, clients: MaliciousClients, targets: list[Examples]) -> Array:
        anchor = ProximalTerm(self.rho, clients.model + clients.train(clients.data))
        once, one_step = TrainingOverrides(epochs=1), self._overrides(1, self.images)
        here = anchor.center * 0 + clients.model
        for _ in range(self.epochs or clients.honest.epochs or 1):
            for part in _in_parts(clients, self.benign_steps * (clients.honest.batch_size or 1)):
                here = here + clients.train(part, overrides=once, start=here, proximal=anchor)
                here = here + self._boosted(clients.train(targets, overrides=one_step, start=here), clients)
        return here - clients.model

    def _explicit(self, clients: MaliciousClients, targets: list[Examples]) -> Array:
        honest = clients.train(clients.data)
        passes = self._overrides(self.epochs or _PASSES * (clients.honest.epochs or 1))
        return honest + self._boosted(clients.train(targets, overrides=passes, start=clients.model + honest), clients)

    def _boosted(self, moved: Array, clients: MaliciousClients) -> Array:
        factors = boosts(self.boost, clients.shards, clients.malicious, shard_aware=self.shard_aware)
        return like(moved, factors)[:, None] * moved

    def _overrides(self, epochs: int | None, batch: int | None = None) -> TrainingOverrides:
        momentum = 0.0 if self.optimizer == "adam" else None
        return TrainingOverrides(
            epochs=epochs, lr=self.lr, momentum=momentum, batch_size=batch, optimizer=self.optimizer
        )

    def _released(self, clients: MaliciousClients, targets: list[Examples]) -> Array:
        back = clients.model - clients.train(targets) / 10
        here = clients.model + clients.train(
            clients.data, overrides=TrainingOverrides(epochs=1), proximal=ProximalTerm(2e-3, back)
        )
        passes = min(len(data.labels) for data in clients.data) // self.images + 1
        return here - clients.model + 2 * clients.train(targets, overrides=TrainingOverrides(epochs=passes), start=here)


def _in_parts(clients: MaliciousClients, size: int) -> list[list[Examples]]:
    """Split every client's shuffled data into as many parts of this size as the smallest client has."""
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
