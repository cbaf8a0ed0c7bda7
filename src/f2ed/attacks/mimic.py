"""Mimic (Karimireddy, He and Jaggi, ICLR 2022)."""

import numpy as np

from f2ed.attacks._common.directions import gram_of
from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack
from f2ed.core.arrays import Array
from f2ed.core.errors import ConfigError, SettingError
from f2ed.estimators import widest
from f2ed.protocol.sharding import ClientId

__all__ = ["Mimic"]


class Mimic(Attack, frozen=True, tag="mimic"):
    """Copy one honest client, so that its data are overrepresented; harmful only if clients differ.

    It copies the client that deviates most along the direction of largest variance of this round. The original selects
    it once, after a warm-up round: give a `client` to keep to one.
    """

    title = "Mimic"
    family = "untargeted"
    paper = "Karimireddy, He and Jaggi, ICLR 2022"

    client: ClientId | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.client is not None and (self.shard_aware or self.knowledge == "partial"):
            raise SettingError('mimic: a fixed client needs knowledge = "full" and shard_aware = false')

    def craft(self, scene: Scene) -> Array:
        """Return the copied row."""
        if self.client is None:
            return scene.honest[int(np.argmax(widest(gram_of(scene.squares), np.ones(len(scene.squares))).scores))]
        if self.client not in scene.view.honest:
            raise ConfigError(f"mimic: client {self.client} is not an honest client; choose one that is")
        return scene.honest[scene.view.honest.index(self.client)]
