"""HIDRA (Choudhary et al., IEEE S&P 2024), an attack on filters that process the vector in sections."""

from itertools import accumulate, pairwise
from typing import Annotated, Literal

import msgspec
import numpy as np

from f2ed.attacks._common.directions import gram_of, unit
from f2ed.attacks._common.scene import Scene
from f2ed.attacks._common.view import AttackerView
from f2ed.attacks.base import Attack, Positive
from f2ed.core.arrays import Array
from f2ed.estimators import Matrix

__all__ = ["HIDRA", "distance"]


class HIDRA(Attack, frozen=True, tag="hidra"):
    """Shift every section against the mean, as far as the filter's slack accepts all malicious rows at once.

    `sections` is the length of a section, starting over in each parameter tensor; "whole" or None treats the vector as
    one section, which is the attack on a filter without sections. `tau` is the filter's bound on the variance; by
    default the largest variance of the section before the attack, the best bound a defender could know. `slack` is the
    factor over tau at which the filter stops, √20 in the released code.
    """

    title = "HIDRA"
    family = "adaptive"
    paper = "Choudhary et al., IEEE S&P 2024"

    sections: Annotated[int, msgspec.Meta(ge=1)] | Literal["whole"] | None = 1000
    tau: Positive | None = None
    slack: Annotated[float, msgspec.Meta(gt=1.0)] = 20**0.5

    def craft(self, scene: Scene) -> Array:
        """Return one row for all malicious clients."""
        sent = scene.before.mean(0)
        for low, high in pairwise(_cuts(scene.view, self.sections)):
            tau = _largest_variance(scene.before[:, low:high]) if self.tau is None else self.tau
            section = sent[low:high]
            section -= distance(scene.contamination, tau, self.slack) * unit(section)
        return sent


def distance(epsilon: float, tau: float, slack: float) -> float:
    """Return how far from the mean a share epsilon of identical rows can be without being filtered."""
    return float(np.sqrt((slack - 1) * tau / (epsilon**2 + (1 - epsilon) ** 2 * epsilon)))


def _cuts(view: AttackerView, size: int | Literal["whole"] | None) -> list[int]:
    if size is None or size == "whole":
        return [0, sum(view.tensors)]
    borders = pairwise(accumulate(view.tensors, initial=0))
    return [*(cut for low, high in borders for cut in range(low, high, size)), sum(view.tensors)]


def _largest_variance(rows: Array) -> float:
    return float(np.linalg.eigvalsh(gram_of(Matrix(rows).squares))[-1]) / len(rows)
