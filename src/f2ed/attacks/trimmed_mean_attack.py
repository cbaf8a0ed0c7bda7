"""TMA, the attack on the trimmed mean (Fang et al., USENIX Security 2020)."""

from typing import Annotated, Literal

import msgspec
import numpy as np

from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack, Variant
from f2ed.core.arrays import Array, namespace

__all__ = ["TrimmedMeanAttack"]


class TrimmedMeanAttack(Attack, frozen=True, tag="trimmed-mean-attack"):
    """Stand, in every coordinate, just beyond the honest row that is farthest back on the way the model goes.

    Full knowledge goes beyond the extreme honest value by a factor drawn from [1, `b`], 2 by default; partial
    knowledge stands 3 to 4 standard deviations behind the mean of its own updates. `space` says what numbers are
    meant: "updates", as in the inventors' later code, or "weights", as in their paper, where the factor
    acts on the whole model and makes a gross outlier. The authors' variant is on weights, with b = 1.5 and one draw
    for all malicious clients.
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
    """Go past the smallest honest value where the model grows, past the largest where it shrinks, away from it."""
    xp = namespace(honest)
    up = heading > 0
    extreme = xp.where(up, _least(honest), -_least(-honest)) + origin
    # Past the smallest means to divide a positive number and to multiply a negative one; past the largest the reverse.
    return xp.where(up == (extreme > 0), extreme / factors, extreme * factors)


def _least(rows: Array) -> Array:
    return rows.min(0) if isinstance(rows, np.ndarray) else rows.amin(0)
