"""What a targeted attack wants, and how far it got."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from f2ed.core.arrays import Array

__all__ = ["EvaluationData", "Examples", "Goal", "Palette", "Success"]


class Examples(NamedTuple):
    """Images [k, channels, height, width] and their labels [k]."""

    images: Array
    labels: Array


class Palette(NamedTuple):
    """The numbers that black and white pixels have become by the normalization of the data."""

    black: float = 0.0
    white: float = 1.0

    def shade(self, value: float) -> float:
        """Return the number for a pixel of this brightness: 0 is black, 1 is white."""
        return self.black + value * (self.white - self.black)


class EvaluationData(NamedTuple):
    """What the success of an attack is measured with; `rng` draws where there is something to choose."""

    test: Examples
    classes: int
    palette: Palette
    rng: np.random.Generator


class Success(NamedTuple):
    """The share of images that the model takes for what the attacker wants.

    `others` leaves out the images whose true label it is anyway; `every` counts them too, as the authors do, so
    that it is well above zero without any attack.
    """

    others: float
    every: float


@dataclass(frozen=True, eq=False)
class Goal:
    """The images shown to the model, the label wanted for each, and the true labels."""

    images: Array
    wanted: Array
    labels: Array

    def success(self, predicted: Array) -> Success:
        """Count the predictions [k] that are as wanted."""
        hits, others = predicted == self.wanted, self.labels != self.wanted
        return Success(int((hits & others).sum()) / max(int(others.sum()), 1), int(hits.sum()) / max(len(hits), 1))
