"""Divide and conquer (DnC, Shejwalkar & Houmansadr, NDSS 2021)."""

from typing import Annotated

import msgspec
import numpy as np

from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators._linalg.spectrum import widest
from f2ed.estimators.base import Estimate, Estimator, Fraction, withstood
from f2ed.estimators.gram_rule import uniform

__all__ = ["DnC"]

Count = Annotated[int, msgspec.Meta(ge=1)]


class DnC(Estimator, frozen=True, tag="dnc"):
    """Drop the rows that stick out most along the top direction of a few random coordinates.

    Each of `draws` picks `coordinates` at random and drops the f rows with the largest scores, `cut`
    times; the rows that no draw has dropped are averaged. The nearest relative of FilterL2 in use.
    """

    title = "DnC"
    family = "spectral"
    paper = "Shejwalkar and Houmansadr, NDSS 2021"

    contamination: Fraction
    draws: Count = 5
    coordinates: Count = 10_000
    cut: Annotated[float, msgspec.Meta(gt=0.0)] = 1.0

    def estimate(self, rows: Rows) -> Estimate:
        """Vote over the draws."""
        drop = min(withstood(self.contamination * self.cut, rows.n), rows.n - 1)
        dropped = np.zeros(rows.n)
        for _ in range(self.draws):
            scores = widest(self._sample(rows).gram, np.ones(rows.n)).scores
            dropped[np.argsort(-scores, kind="stable")[:drop]] += 1
        # If every row was dropped in some draw, those dropped least often stay.
        weights = uniform(np.flatnonzero(dropped == dropped.min()), rows.n)
        return Estimate(rows.combine(weights), weights, iterations=self.draws)

    def _sample(self, rows: Rows) -> Rows:
        count = min(self.coordinates, rows.d)
        return rows.section(np.sort(rows.rng.choice(rows.d, count, replace=False)))
