"""The plain mean: fastest, and no protection at all."""

import numpy as np

from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator

__all__ = ["Mean"]


class Mean(Estimator, frozen=True, tag="mean"):
    """Average all rows; one malicious row can move the result anywhere."""

    title = "Mean"
    family = "baseline"
    paper = "McMahan et al., AISTATS 2017"
    uses_previous = False

    weighted = True

    def estimate(self, rows: Rows) -> Estimate:
        """Give every row the same weight, or its own."""
        weights = np.full(rows.n, 1 / rows.n) if rows.prior is None else rows.prior / rows.prior.sum()
        return Estimate(rows.combine(weights), weights)
