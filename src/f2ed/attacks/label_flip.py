"""Label flipping: honest training on wrong labels (Tolpegin et al., ESORICS 2020)."""

from typing import Annotated

import msgspec
import numpy as np

from f2ed.attacks._common.backdoor import Count, Share
from f2ed.attacks._common.boost import Boost, boosts
from f2ed.attacks._common.goal import Examples
from f2ed.attacks._common.scene import Scene
from f2ed.attacks._common.training import MaliciousClients, TrainingOverrides
from f2ed.attacks._common.triggers import copied
from f2ed.attacks._common.view import Knowledge
from f2ed.attacks.base import Attack, Positive
from f2ed.core.arrays import Array, namespace
from f2ed.core.errors import ConfigError, SettingError

__all__ = ["LabelFlip"]

Label = Annotated[int, msgspec.Meta(ge=0)]


class LabelFlip(Attack, frozen=True, tag="label-flip"):
    """Train on wrong labels: classes - 1 - y instead of y, or `target` instead of `source` only.

    `boost` scales the update; without it, it is sent as trained.
    """

    title = "Label flip"
    family = "untargeted"
    paper = "Tolpegin et al., ESORICS 2020"

    source: Label | None = None
    target: Label | None = None
    knowledge: Knowledge = "partial"
    share: Share | None = None
    """Of each client's images, drawn in every round; by default all."""
    boost: Boost | None = None
    epochs: Count | None = None
    lr: Positive | None = None
    """By default those of the honest clients."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.source is None) != (self.target is None):
            raise SettingError("label-flip: give both source and target, or neither to flip all labels")

    def train(self, clients: MaliciousClients) -> Array:
        """Train on the wrong labels, by default like honest clients."""
        wrong = [Examples(data.images, self._mislabeled(data.labels, clients)) for data in clients.data]
        return clients.train(wrong, overrides=TrainingOverrides(self.epochs, self.lr))

    def craft(self, scene: Scene) -> Array:
        """Boost the trained update, if asked to."""
        if self.boost is None:
            return scene.own
        view = scene.view
        factors = boosts(self.boost, view.shards, view.malicious, shard_aware=self.shard_aware)
        return scene.like(factors)[:, None] * scene.own

    def _mislabeled(self, labels: Array, clients: MaliciousClients) -> Array:
        flipped = self.flipped(labels, clients.classes)
        if self.share is None:
            return flipped
        chosen = np.sort(clients.rng.permutation(len(labels))[: max(1, round(self.share * len(labels)))])
        wrong = copied(labels)
        wrong[chosen] = flipped[chosen]
        return wrong

    def flipped(self, labels: Array, classes: int) -> Array:
        """Return the wrong labels."""
        if self.source is None or self.target is None:
            return classes - 1 - labels
        if max(self.source, self.target) >= classes:
            raise ConfigError(
                f"label-flip: source = {self.source}, target = {self.target}, but the largest label is {classes - 1}"
            )
        xp = namespace(labels)
        return xp.where(labels == self.source, xp.full_like(labels, self.target), labels)
