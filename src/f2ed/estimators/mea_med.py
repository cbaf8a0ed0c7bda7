"""Mean around the median (Xie et al. 2018)."""

from f2ed.estimators._linalg import columns
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator, Fraction, withstood

__all__ = ["MeaMed"]


class MeaMed(Estimator, frozen=True, tag="mea-med"):
    """Average, in each coordinate, all but the `contamination` values farthest from the median."""

    title = "Mean around median"
    family = "coordinate-wise"
    paper = "Xie, Koyejo and Gupta, 2018"

    contamination: Fraction

    def estimate(self, rows: Rows) -> Estimate:
        """Sort each column and average what is nearest its middle."""
        keep = rows.n - withstood(self.contamination, rows.n)
        return Estimate(rows.fill(lambda block: columns.nearest(columns.sort(block), keep)))
