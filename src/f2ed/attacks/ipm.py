"""Inner-product manipulation (Xie, Koyejo and Gupta, UAI 2019)."""

from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack, Positive, Variant
from f2ed.core.arrays import Array

__all__ = ["IPM"]


class IPM(Attack, frozen=True, tag="ipm"):
    """Send the honest mean turned round, times `scale`.

    Below (1 - ε)/ε it cannot turn a plain mean round: a small scale is aimed at Krum and medians. The
    authors' variant divides the honest sum by the number of all rows, which is a scale of 1 - ε.
    """

    title = "Inner-product manipulation"
    family = "untargeted"
    paper = "Xie, Koyejo and Gupta, UAI 2019"

    scale: Positive = 0.1
    variant: Variant = "original"

    def craft(self, scene: Scene) -> Array:
        """Send the same to all."""
        return -(1 - scene.epsilon if self.variant == "released" else self.scale) * scene.mean
