"""Coordinate-wise trimmed mean (Yin et al., ICML 2018)."""

from f2ed.core.arrays import Array
from f2ed.estimators._linalg import columns
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate
from f2ed.estimators.bounded import BoundedEstimator

__all__ = ["TrimmedMean"]


class TrimmedMean(BoundedEstimator, frozen=True, tag="trimmed-mean"):
    """Drop the f smallest and the f largest values of each coordinate, then average."""

    title = "Trimmed mean"
    family = "coordinate-wise"
    paper = "Yin et al., ICML 2018"
    uses_previous = False
    weighted = True

    def estimate(self, rows: Rows) -> Estimate:
        """Sort each column and average its middle."""
        prior = rows.prior
        if prior is not None:
            cut = self.tolerated_weight(prior)
            return Estimate(rows.fill(lambda block: columns.weighted_middle(block, prior, cut)))
        drop = self.tolerated(rows.n)

        def middle(block: Array) -> Array:
            kept = columns.sort(block)[drop : rows.n - drop]
            return sum(kept) / len(kept)

        return Estimate(rows.fill(middle))
