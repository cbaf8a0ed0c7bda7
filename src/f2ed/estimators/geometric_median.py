"""Geometric median by the smoothed Weiszfeld iteration (RFA, Pillutla et al. 2019)."""

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.estimators.base import Weights
from f2ed.estimators.gram_rule import GramRule, RowWeights

__all__ = ["GeometricMedian"]

_CONVERGED = 1e-7  # of the typical distance, moved in one step
_NEAREST = 1e-6  # of the typical distance: rows closer than this count as being this far


class GeometricMedian(GramRule, frozen=True, tag="geometric-median"):
    """Return the point with the smallest sum of distances to all rows, iterated to convergence."""

    title = "Geometric median"
    family = "distance-based"
    paper = "Pillutla et al., 2019"
    weighted = True

    iterations: Annotated[int, msgspec.Meta(ge=1)] = 1000

    def weigh(self, gram: npt.NDArray[np.float64], prior: Weights | None = None) -> RowWeights:
        """Weigh each row by the inverse of its distance from the current point, until it converges."""
        weights = np.full(len(gram), 1 / len(gram)) if prior is None else prior / prior.sum()
        lengths = gram.diagonal()
        stopped = "the iteration cap was reached"
        for step in range(1, self.iterations + 1):  # noqa: B007  the last step is reported
            squares = np.maximum(lengths - 2 * gram @ weights + weights @ gram @ weights, 0)
            typical = float(np.median(squares)) or float(squares.max())
            if typical == 0:
                stopped = "the rows agree"
                break
            inverse = 1 / np.sqrt(np.maximum(squares, _NEAREST**2 * typical))
            inverse = inverse if prior is None else inverse * prior
            moved = inverse / inverse.sum()
            change, weights = moved - weights, moved
            if change @ gram @ change < _CONVERGED**2 * typical:
                stopped = "converged"
                break
        return RowWeights(weights, None, step, stopped)
