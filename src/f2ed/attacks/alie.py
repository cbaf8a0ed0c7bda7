"""A Little Is Enough (Baruch et al., NeurIPS 2019)."""

from statistics import NormalDist
from typing import Annotated

import msgspec

from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack
from f2ed.core.arrays import Array

__all__ = ["ALIE", "largest_z"]


class ALIE(Attack, frozen=True, tag="alie"):
    """Send the honest mean shifted by `z` standard deviations in every coordinate, within the spread of honest rows.

    The default z is the largest at which enough honest rows lie further out to form a majority with the malicious ones;
    the original code fixes 1.5. In the original the clients know their own updates only: knowledge = "partial".
    """

    title = "A little is enough"
    family = "untargeted"
    paper = "Baruch et al., NeurIPS 2019"

    z: Annotated[float, msgspec.Meta(ge=0.0)] | None = None

    def craft(self, scene: Scene) -> Array:
        """Return one row for all malicious clients."""
        z = largest_z(scene.n, scene.m) if self.z is None else self.z
        return scene.mean - z * scene.spread


def largest_z(n: int, m: int) -> float:
    """Return Φ⁻¹((n - m - s) / (n - m)), where s = ⌊n/2 + 1⌋ - m honest rows complete a majority.

    It is never negative, and finite even if the malicious rows alone are a majority.
    """
    needed = max(n // 2 + 1 - m, 1)
    share = (n - m - needed) / max(n - m, 1)
    return max(NormalDist().inv_cdf(share), 0.0) if share > 0 else 0.0
