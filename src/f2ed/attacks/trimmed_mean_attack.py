"""TMA, the attack on the trimmed mean (Fang et al., USENIX Security 2020)."""

from typing import Annotated, Literal

import msgspec
import numpy as np

from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack, Variant
from f2ed.core.arrays import Array, namespace

__all__ = ["TrimmedMeanAttack"]


class TrimmedMeanAttack(Attack, frozen=True, tag="trimmed-mean-attack"):
    """Send, in every coordinate, a value just beyond the honest extreme, opposite to the update's sign.

    With full knowledge it exceeds the extreme honest value by a factor drawn from [1, `b`], 2 by default; with partial
    knowledge it is 3 to 4 standard deviations from the mean of the own updates. `space` selects the values: "updates",
    as in the later code of its authors, or "weights", as in their paper, where the factor acts on the whole model and
    makes an extreme outlier. The released variant uses weights, b = 1.5 and one draw for all malicious clients.
    """

    title = "Trimmed-mean attack"
    family = "untargeted"
    paper = "Fang et al., USENIX Security 2020"
    aliases = ("tma",)

    b: Annotated[float, msgspec.Meta(ge=1.0)] | None = None
    space: Literal["updates", "weights"] | None = None
    variant: Variant = "original"

    def craft(self, scene: Scene) -> Array:
        """Draw for every coordinate and every row, or once for all rows."""
        shared = self.variant == "released"
        draws = scene.like(scene.view.rng.random((1 if shared else scene.m, scene.d), np.float32))
        if self.knowledge == "partial":
            return scene.mean - scene.heading * scene.spread * (3 + draws)
        b = self.b or (1.5 if shared else 2.0)
        on_weights = (self.space or ("weights" if shared else "updates")) == "weights"
        origin = scene.view.model if on_weights else scene.mean * 0
        return _beyond(scene.honest, origin, scene.heading, 1 + (b - 1) * draws) - origin


def _beyond(honest: Array, origin: Array, heading: Array, factors: Array) -> Array:
    """Exceed the smallest honest value where the sum is positive, the largest where it is not."""
    xp = namespace(honest)
    up = heading > 0
    extreme = xp.where(up, _smallest(honest), -_smallest(-honest)) + origin
    # Below the smallest: divide a positive value, multiply a negative one; above the largest: the reverse.
    return xp.where(up == (extreme > 0), extreme / factors, extreme * factors)


def _smallest(rows: Array) -> Array:
    return rows.min(0) if isinstance(rows, np.ndarray) else rows.amin(0)
