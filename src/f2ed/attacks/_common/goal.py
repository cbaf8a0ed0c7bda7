"""What a targeted attack wants, and how its success is measured."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from f2ed.core.arrays import Array

__all__ = ["EvaluationData", "Examples", "Goal", "Palette", "Success"]


class Examples(NamedTuple):
    """Images [k, channels, height, width] and their labels [k]."""

    images: Array
    labels: Array


class Palette(NamedTuple):
    """The values of black and white pixels after the normalization of the data."""

    black: float = 0.0
    white: float = 1.0

    def shade(self, value: float) -> float:
        """Return the value of a pixel of this brightness: 0 is black, 1 is white."""
        return self.black + value * (self.white - self.black)


class EvaluationData(NamedTuple):
    """The data that the success of an attack is measured with; `rng` selects from it."""

    test: Examples
    classes: int
    palette: Palette
    rng: np.random.Generator


class Success(NamedTuple):
    """The share of images that get the label the attacker wants.

    `others` leaves out the images whose true label it is; `every` counts them too, like the released code, so it is
    well above zero without any attack.
    """

    others: float
    every: float


@dataclass(frozen=True, eq=False)
class Goal:
    """The images shown to the model, the label wanted for each, and the true labels."""

    images: Array
    wanted: Array
    labels: Array
    lesson: Examples | None = None
    """Images like these, with the labels wanted, that the attacker has for training."""
    clean: Array | None = None
    """The images without the trigger, for an attack that learns another one in every round."""
    learned: Any = None
    """The trigger of this round, in the attack's own form; None before it has learned one."""

    def success(self, predicted: Array) -> Success:
        """Compare the predictions [k] with the wanted labels."""
        hits, others = predicted == self.wanted, self.labels != self.wanted
        return Success(int((hits & others).sum()) / max(int(others.sum()), 1), int(hits.sum()) / max(len(hits), 1))
