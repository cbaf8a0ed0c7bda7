"""Sign flipping, as in the frameworks for Byzantine learning."""

from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack, Positive
from f2ed.core.arrays import Array

__all__ = ["SignFlip"]


class SignFlip(Attack, frozen=True, tag="sign-flip"):
    """Send one's own update turned round, times `scale`."""

    title = "Sign flip"
    family = "untargeted"
    paper = "Li et al., AAAI 2019"

    scale: Positive = 1.0

    def craft(self, scene: Scene) -> Array:
        """Turn each row round."""
        return -self.scale * scene.own
