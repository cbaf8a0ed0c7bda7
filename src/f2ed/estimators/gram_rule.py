"""Rules that weigh the rows from their Gram matrix alone: one pass to build it, one to combine."""

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator, Weights

__all__ = ["GramRule", "RowWeights", "uniform"]


class RowWeights(NamedTuple):
    """The weights of the rows, summing to one, with the diagnostics of an `Estimate`."""

    weights: Weights
    eigenvalue: float | None = None
    iterations: int = 0
    stopped: str = ""


class GramRule(Estimator, frozen=True):
    """A rotation-invariant rule whose estimate is a weighted mean of the rows.

    A rule of your own that takes rows of different weights sets `weighted`, and its `weigh` takes their `prior` too.
    """

    uses_previous = False

    @abstractmethod
    def weigh(self, gram: npt.NDArray[np.float64], prior: Weights | None = None) -> RowWeights:
        """Return weights for n rows, given their Gram matrix [n, n] about any common center.

        `prior` are the weights that the rows count with; without it all count the same.
        """

    def estimate(self, rows: Rows) -> Estimate:
        """Weigh, then combine."""
        found = self.weigh(rows.gram) if rows.prior is None else self.weigh(rows.gram, rows.prior)
        return Estimate(rows.combine(found.weights), *found)


def uniform(chosen: npt.NDArray[np.intp] | list[int], n: int, prior: Weights | None = None) -> Weights:
    """Give the chosen rows equal weight, or weight in proportion to their prior, and the others none."""
    weights = np.zeros(n)
    weights[chosen] = 1 / len(chosen) if prior is None else prior[chosen] / prior[chosen].sum()
    return weights
