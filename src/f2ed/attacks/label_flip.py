"""Label flipping: honest training on wrong labels (Tolpegin et al., ESORICS 2020)."""

from typing import Annotated

import msgspec

from f2ed.attacks._common.goal import Examples
from f2ed.attacks._common.training import MaliciousClients
from f2ed.attacks._common.view import Knowledge
from f2ed.attacks.base import Attack
from f2ed.core.arrays import Array, namespace
from f2ed.core.errors import ConfigError, SettingError

__all__ = ["LabelFlip"]

Label = Annotated[int, msgspec.Meta(ge=0)]


class LabelFlip(Attack, frozen=True, tag="label-flip"):
    """Train on wrong labels: classes - 1 - y instead of y, or `target` instead of `source` only."""

    title = "Label flip"
    family = "untargeted"
    paper = "Tolpegin et al., ESORICS 2020"

    source: Label | None = None
    target: Label | None = None
    knowledge: Knowledge = "partial"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.source is None) != (self.target is None):
            raise SettingError("label-flip: give both source and target, or neither to flip all labels")

    def train(self, clients: MaliciousClients) -> Array:
        """Train like honest clients, on the wrong labels."""
        return clients.train(
            [Examples(data.images, self.flipped(data.labels, clients.classes)) for data in clients.data]
        )

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
