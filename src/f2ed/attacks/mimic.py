"""Mimic (Karimireddy, He and Jaggi, ICLR 2022), and copies that are as long as the rule in use lets them be."""

from typing import Annotated

import msgspec
import numpy as np

from f2ed.attacks._common.directions import gram_of, length
from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack
from f2ed.attacks.oracle import estimate_with
from f2ed.core.arrays import Array
from f2ed.core.errors import ConfigError, SettingError
from f2ed.estimators import widest
from f2ed.protocol.sharding import ClientId

__all__ = ["Mimic", "StretchedMimic"]

_GROUP = 5  # the most rows that are copied: copies of many do not agree enough to outweigh the others


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


class StretchedMimic(Attack, frozen=True, tag="stretched-mimic"):
    """Copy a few honest rows, and stretch the copies as far as the estimator in use follows.

    Stretched copies have the signs and the direction of honest rows, and many copies of few rows pull every median
    toward themselves: a rule that rejects by signs or angles then rejects honest rows, and has no honest length left
    to clip to. Each round it tries `points` random groups of up to five rows, with a random factor up to `stretch`, on
    the estimator, and sends the group that moves it farthest.
    """

    title = "Stretched mimic"
    family = "adaptive"
    paper = "after Karimireddy, He and Jaggi, ICLR 2022"

    stretch: Annotated[float, msgspec.Meta(gt=1.0)] = 20.0
    points: Annotated[int, msgspec.Meta(ge=2)] = 32
    shard_aware: bool = True

    def craft(self, scene: Scene) -> Array:
        """Return one row for each row that is malicious."""
        tried = [self._drawn(scene) for _ in range(self.points)]
        rows, factor = max(tried, key=lambda each: length(estimate_with(scene, _copies(scene, *each)) - scene.mean))
        return _copies(scene, rows, factor)

    def _drawn(self, scene: Scene) -> tuple[list[int], float]:
        """Draw a group of honest rows, and how long their copies are."""
        rng, honest = scene.view.rng, len(scene.honest)
        rows = rng.choice(honest, rng.integers(1, min(_GROUP, honest, scene.m), endpoint=True), replace=False)
        return [int(rows[at % len(rows)]) for at in range(scene.m)], float(self.stretch ** rng.uniform())


def _copies(scene: Scene, rows: list[int], factor: float) -> Array:
    return factor * scene.honest[rows]
