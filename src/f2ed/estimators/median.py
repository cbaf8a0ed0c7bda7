"""Coordinate-wise median (Yin et al., ICML 2018)."""

from f2ed.estimators._linalg import columns
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator

__all__ = ["Median"]


class Median(Estimator, frozen=True, tag="median"):
    """Take the median of each coordinate; for an even number of rows, the mean of the two middle values."""

    title = "Median"
    family = "coordinate-wise"
    paper = "Yin et al., ICML 2018"
    uses_previous = False
    weighted = True

    def estimate(self, rows: Rows) -> Estimate:
        """Sort each column."""
        prior = rows.prior
        if prior is not None:
            return Estimate(rows.fill(lambda block: columns.weighted_middle(block, prior, float(prior.sum()) / 2)))
        return Estimate(rows.fill(lambda block: columns.median(columns.sort(block))))
