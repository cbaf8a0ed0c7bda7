"""Bulyan (El Mhamdi et al., ICML 2018)."""

import numpy as np
import numpy.typing as npt

from f2ed.estimators._linalg import columns
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.krum import Krum, krum_scores
from f2ed.estimators.median import Median
from f2ed.estimators.trimmed_mean import TrimmedMean

__all__ = ["Bulyan"]

Index = npt.NDArray[np.intp]


class Bulyan(BoundedEstimator, frozen=True, tag="bulyan"):
    """Select n - 2f rows one by one with an inner rule, then average the values nearest their median.

    Krum (the default) selects the row it returns; the other inner rules select the row nearest their estimate, which
    costs one pass over the data per row.
    """

    title = "Bulyan"
    family = "distance-based"
    paper = "El Mhamdi et al., ICML 2018"
    uses_previous = False

    needs = "n >= 4f + 3"

    inner: Krum | TrimmedMean | Median | None = None

    def estimate(self, rows: Rows) -> Estimate:
        """Select rows, then average in each coordinate the n - 4f values nearest the median of those selected."""
        f = self.tolerated(rows.n)
        count = rows.n - 2 * f
        if self.inner is None or isinstance(self.inner, Krum):
            chosen = _by_krum(rows, f, count)
        else:
            chosen = _by_distance(rows, self.inner, count)
        keep = count - 2 * f
        return Estimate(rows.select(chosen).fill(lambda block: columns.nearest(columns.sort(block), keep)))

    def max_f(self, n: int) -> int:
        """Solve n >= 4f + 3."""
        return (n - 3) // 4


def _by_krum(rows: Rows, f: int, count: int) -> Index:
    left = np.arange(rows.n)
    chosen = []
    for _ in range(count):
        best = int(np.argmin(krum_scores(rows.squares[np.ix_(left, left)], f))) if len(left) > 1 else 0
        chosen.append(left[best])
        left = np.delete(left, best)
    return np.array(chosen)


def _by_distance(rows: Rows, inner: TrimmedMean | Median, count: int) -> Index:
    left = np.arange(rows.n)
    chosen = []
    for _ in range(count):
        remaining = rows.select(left)
        center = inner.estimate(remaining).mean
        best = int(np.argmin(remaining.distances(center.__getitem__)))
        chosen.append(left[best])
        left = np.delete(left, best)
    return np.array(chosen)
