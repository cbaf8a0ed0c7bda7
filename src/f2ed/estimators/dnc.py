"""Divide and conquer (DnC, Shejwalkar & Houmansadr, NDSS 2021)."""

from typing import Annotated

import msgspec
import numpy as np

from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators._linalg.spectrum import widest
from f2ed.estimators.base import Estimate
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.gram_rule import uniform

__all__ = ["DnC"]

Count = Annotated[int, msgspec.Meta(ge=1)]


class DnC(BoundedEstimator, frozen=True, tag="dnc"):
    """Drop the outliers along the top principal direction of random coordinates, and average the rest.

    Each of `draws` samples `coordinates` at random and drops the `cut` f rows with the largest scores; the rows that
    no draw has dropped are averaged. Of the other rules it is the closest to FilterL2.
    """

    title = "DnC"
    family = "spectral"
    paper = "Shejwalkar and Houmansadr, NDSS 2021"
    uses_previous = False
    weighted = True

    draws: Count = 5
    coordinates: Count = 10_000
    cut: Annotated[float, msgspec.Meta(gt=0.0)] = 1.0

    def estimate(self, rows: Rows) -> Estimate:
        """Keep the rows that survive every draw."""
        drop = min(int(self.tolerated_share(rows.n) * self.cut * rows.n + 1e-9), rows.n - 1)
        dropped, prior = np.zeros(rows.n), np.ones(rows.n) if rows.prior is None else rows.prior
        for _ in range(self.draws):
            scores = widest(self._sample(rows).gram, prior).scores
            dropped[np.argsort(-scores, kind="stable")[:drop]] += 1
        # If every row was dropped in some draw, keep those dropped least often.
        weights = uniform(np.flatnonzero(dropped == dropped.min()), rows.n, rows.prior)
        return Estimate(rows.combine(weights), weights, iterations=self.draws)

    def _sample(self, rows: Rows) -> Rows:
        count = min(self.coordinates, rows.d)
        return rows.section(np.sort(rows.rng.choice(rows.d, count, replace=False)))
