"""Min-Max and Min-Sum (Shejwalkar and Houmansadr, NDSS 2021).

A crafted row is the honest mean plus gamma times a direction. Its squared distances from the honest rows are quadratics
in gamma whose coefficients cost one pass, so the largest gamma is found in closed form; the original halves steps from
10 instead, and so stays below 20.
"""

from abc import abstractmethod
from typing import Literal

import numpy as np
import numpy.typing as npt

from f2ed.attacks._common.directions import length, perturbation
from f2ed.attacks._common.scene import Scene
from f2ed.attacks.base import Attack
from f2ed.core.arrays import Array

__all__ = ["MinMax", "MinSum"]

Vector = npt.NDArray[np.float64]


class _Farthest(Attack, frozen=True):
    direction: Literal["mean", "sign", "spread"] = "mean"

    def craft(self, scene: Scene) -> Array:
        """Return the row with the largest gamma that the constraint allows."""
        step = perturbation(self.direction, scene)
        size = length(step)
        if size == 0:
            return scene.mean
        from_mean = scene.squares.mean(1) - scene.squares.mean() / 2
        return scene.mean + self.gamma(size**2, -scene.along(step), from_mean, scene.squares) * step

    @abstractmethod
    def gamma(self, square: float, slopes: Vector, from_mean: Vector, squares: Vector) -> float:
        """Return the largest x that is allowed, where ‖v - g_i‖² = square x² + 2 slopes_i x + from_mean_i."""


class MinMax(_Farthest, frozen=True, tag="min-max"):
    """Send a row no farther from any honest row than the two honest rows farthest apart."""

    title = "Min-max"
    family = "untargeted"
    paper = "Shejwalkar and Houmansadr, NDSS 2021"

    def gamma(self, square: float, slopes: Vector, from_mean: Vector, squares: Vector) -> float:
        """Solve for every honest row; the smallest solution counts."""
        return float(_root(square, slopes, from_mean - squares.max()).min())


class MinSum(_Farthest, frozen=True, tag="min-sum"):
    """Send a row whose sum of squared distances from the honest rows is no larger than that of an honest row.

    The paper takes the largest such sum as the bound; its code the smallest (`bound = "min"`).
    """

    title = "Min-sum"
    family = "untargeted"
    paper = "Shejwalkar and Houmansadr, NDSS 2021"

    bound: Literal["max", "min"] = "max"

    def gamma(self, square: float, slopes: Vector, from_mean: Vector, squares: Vector) -> float:
        """Solve for the sum."""
        sums = squares.sum(1)
        limit = sums.max() if self.bound == "max" else sums.min()
        return float(_root(len(sums) * square, slopes.sum(), from_mean.sum() - limit))


def _root(a: float, b: Vector, c: Vector) -> Vector:
    """Return the larger root of a x² + 2 b x + c, where c is at most zero up to rounding."""
    return np.asarray((np.sqrt(b**2 - a * np.minimum(c, 0)) - b) / a)
