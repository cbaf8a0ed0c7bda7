"""Bulyan (El Mhamdi et al., ICML 2018)."""

import numpy as np
import numpy.typing as npt

from f2ed.estimators._linalg import columns
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator, Fraction, within
from f2ed.estimators.krum import Krum, krum_scores
from f2ed.estimators.median import Median
from f2ed.estimators.trimmed_mean import TrimmedMean

__all__ = ["Bulyan"]

Index = npt.NDArray[np.intp]


class Bulyan(Estimator, frozen=True, tag="bulyan"):
    """Let an inner rule choose n - 2f rows one by one, then average what is nearest their median.

    The inner rule points at one row a time: Krum at its answer, the others at the row nearest theirs.
    Only Krum does so without a pass over the data for each row.
    """

    title = "Bulyan"
    family = "distance-based"
    paper = "El Mhamdi et al., ICML 2018"

    contamination: Fraction
    inner: Krum | TrimmedMean | Median | None = None

    def estimate(self, rows: Rows) -> Estimate:
        """Choose rows, then take in each coordinate the n - 4f values nearest the median of the chosen."""
        feared = within("Bulyan", self.contamination, rows.n, (rows.n - 3) // 4, "n >= 4f + 3")
        count = rows.n - 2 * feared
        if self.inner is None or isinstance(self.inner, Krum):
            chosen = _by_krum(rows, feared, count)
        else:
            chosen = _by_distance(rows, self.inner, count)
        keep = count - 2 * feared
        return Estimate(rows.select(chosen).fill(lambda block: columns.nearest(columns.sort(block), keep)))


def _by_krum(rows: Rows, feared: int, count: int) -> Index:
    left = np.arange(rows.n)
    chosen = []
    for _ in range(count):
        best = int(np.argmin(krum_scores(rows.squares[np.ix_(left, left)], feared))) if len(left) > 1 else 0
        chosen.append(left[best])
        left = np.delete(left, best)
    return np.array(chosen)


def _by_distance(rows: Rows, inner: TrimmedMean | Median, count: int) -> Index:
    left = np.arange(rows.n)
    chosen = []
    for _ in range(count):
        remaining = rows.select(left)
        answer = inner.estimate(remaining).mean
        best = int(np.argmin(remaining.distances(answer.__getitem__)))
        chosen.append(left[best])
        left = np.delete(left, best)
    return np.array(chosen)
