"""Inner-product manipulation (Xie, Koyejo and Gupta, UAI 2019)."""

from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack, Positive, Variant
from f2ed.core.arrays import Array

__all__ = ["IPM"]


class IPM(Attack, frozen=True, tag="ipm"):
    """Send -`scale` times the honest mean.

    Below (1 - ε)/ε it cannot reverse a plain mean: small scales target Krum and medians. The released variant divides
    the honest sum by the number of all rows, which is a scale of 1 - ε.
    """

    title = "Inner-product manipulation"
    family = "untargeted"
    paper = "Xie, Koyejo and Gupta, UAI 2019"

    scale: Positive = 0.1
    variant: Variant = "original"

    def craft(self, scene: Scene) -> Array:
        """Return one row for all malicious clients."""
        return -(1 - scene.contamination if self.variant == "released" else self.scale) * scene.mean
