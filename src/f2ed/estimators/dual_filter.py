"""FilterL2 on the rows and on the same rows in units of each coordinate's spread, together."""

import numpy as np
import numpy.typing as npt

from f2ed.estimators._linalg.gram import squared_distances
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators._linalg.standardized import standardized_gram
from f2ed.estimators.base import Estimate
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.filter_l2 import FilterL2

__all__ = ["DualFilter"]


class DualFilter(BoundedEstimator, frozen=True, tag="dual-filter"):
    """Filter each row next to a copy of it in which every coordinate is divided by its own spread.

    Where clients differ, a few directions of large honest variance hide a backdoor that is small but lies where honest
    rows agree. In units of the spread it stands out; the rows as they are expose those who push far along any
    direction. Both halves count the same: each is scaled by its median squared distance between rows. The spread of a
    coordinate is the width of the narrowest interval with more than half of its values, which fewer than half of the
    rows cannot make large; a tenth of the median spread is added to it.

    As FilterL2 it bounds the error by the largest variance, here of the joined rows, without a factor for the
    dimension. That variance is at most that of the rows plus that of the standardized rows, each in its own scale.
    """

    title = "Dual filter"
    family = "spectral"
    paper = "after FilterL2, Steinhardt, 2018"
    uses_previous = False
    weighted = True

    def estimate(self, rows: Rows) -> Estimate:
        """Build both Gram matrices, and run the filter on their sum. The units are those of rows that count alike."""
        f = self.tolerated(rows.n)
        found = FilterL2(f=f).weigh(_in_scale(rows.gram) + _in_scale(standardized_gram(rows)), rows.prior)
        return Estimate(rows.combine(found.weights), *found)


def _in_scale(gram: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Divide by the median squared distance of two rows; by the mean one if most rows agree."""
    squares = squared_distances(gram)[np.triu_indices(len(gram), 1)]
    if not squares.size:
        return gram
    typical = float(np.median(squares)) or float(squares.mean())
    return gram / typical if typical else gram
