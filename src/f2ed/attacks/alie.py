"""A Little Is Enough (Baruch et al., NeurIPS 2019)."""

from statistics import NormalDist
from typing import Annotated

import msgspec

from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack
from f2ed.core.arrays import Array

__all__ = ["ALIE", "largest_z"]


class ALIE(Attack, frozen=True, tag="alie"):
    """Stand `z` standard deviations beside the honest mean in every coordinate, where enough honest rows stand too.

    Without `z` it is the largest for which a majority with the malicious rows can form; the inventors'
    code fixes 1.5. The inventors' clients know their own updates alone: knowledge = "partial".
    """

    title = "A little is enough"
    family = "untargeted"
    paper = "Baruch et al., NeurIPS 2019"

    z: Annotated[float, msgspec.Meta(ge=0.0)] | None = None

    def craft(self, scene: Scene) -> Array:
        """Send the same to all."""
        z = largest_z(scene.n, scene.m) if self.z is None else self.z
        return scene.mean - z * scene.spread


def largest_z(n: int, m: int) -> float:
    """Return Φ⁻¹((n - m - s) / (n - m)), s = ⌊n/2 + 1⌋ - m being the honest rows still needed for a majority.

    It is not negative, and finite also where the malicious rows are a majority by themselves.
    """
    needed = max(n // 2 + 1 - m, 1)
    share = (n - m - needed) / max(n - m, 1)
    return max(NormalDist().inv_cdf(share), 0.0) if share > 0 else 0.0
