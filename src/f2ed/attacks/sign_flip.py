"""Sign flipping (Li et al., AAAI 2019)."""

from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack, Positive
from f2ed.core.arrays import Array

__all__ = ["SignFlip"]


class SignFlip(Attack, frozen=True, tag="sign-flip"):
    """Send -`scale` times the own update."""

    title = "Sign flip"
    family = "untargeted"
    paper = "Li et al., AAAI 2019"

    scale: Positive = 1.0

    def craft(self, scene: Scene) -> Array:
        """Negate each row."""
        return -self.scale * scene.own
