"""Gaussian noise instead of an update (as in Blanchard et al., NeurIPS 2017)."""

from typing import Annotated

import msgspec
import numpy as np

from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack
from f2ed.core.arrays import Array

__all__ = ["Gaussian"]


class Gaussian(Attack, frozen=True, tag="gaussian"):
    """Send independent normal values with this `mean` and standard deviation `std`."""

    title = "Gaussian noise"
    family = "untargeted"
    paper = "Blanchard et al., NeurIPS 2017"

    mean: float = 0.0
    std: Annotated[float, msgspec.Meta(ge=0.0)] = 1.0

    def craft(self, scene: Scene) -> Array:
        """Draw each row independently."""
        draws = scene.view.rng.standard_normal((scene.m, scene.d), np.float32)
        return scene.like(draws) * self.std + self.mean
