"""Mean around the median (Xie et al. 2018)."""

from f2ed.estimators._linalg import columns
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate
from f2ed.estimators.bounded import BoundedEstimator

__all__ = ["MeaMed"]


class MeaMed(BoundedEstimator, frozen=True, tag="mea-med"):
    """Average, in each coordinate, all but the f values farthest from the median."""

    title = "Mean around median"
    family = "coordinate-wise"
    paper = "Xie, Koyejo and Gupta, 2018"
    uses_previous = False
    weighted = True

    def estimate(self, rows: Rows) -> Estimate:
        """Sort each column and average the values nearest its median."""
        prior = rows.prior
        if prior is not None:
            total = float(prior.sum()) - self.tolerated_weight(prior)
            return Estimate(rows.fill(lambda block: columns.weighted_nearest(block, prior, total)))
        keep = rows.n - self.tolerated(rows.n)
        return Estimate(rows.fill(lambda block: columns.nearest(columns.sort(block), keep)))
