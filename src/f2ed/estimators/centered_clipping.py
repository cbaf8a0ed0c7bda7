"""Centered clipping (Karimireddy et al., ICML 2021)."""

from typing import Annotated

import msgspec
import numpy as np

from f2ed.estimators._linalg.columns import weighted_median
from f2ed.estimators._linalg.rows import Rows, Vector
from f2ed.estimators.base import Estimate, Estimator

__all__ = ["CenteredClipping"]


class CenteredClipping(Estimator, frozen=True, tag="centered-clipping"):
    """Move the previous estimate by the mean of the rows' differences from it, each clipped to `radius`.

    Without a previous estimate it starts at zero; without a radius it clips at the median distance. The weights show
    how much of each row passed the clipping. One direct pass per iteration, no Gram matrix.
    """

    title = "Centered clipping"
    family = "distance-based"
    paper = "Karimireddy, He and Jaggi, ICML 2021"
    weighted = True

    radius: Annotated[float, msgspec.Meta(gt=0.0)] | None = None
    iterations: Annotated[int, msgspec.Meta(ge=1)] = 1

    def estimate(self, rows: Rows) -> Estimate:
        """Clip and move, `iterations` times."""
        if rows.prior is not None:
            return self._weighted(rows, rows.prior / rows.prior.sum())
        center, passed = rows.previous, np.ones(rows.n)
        for _ in range(self.iterations):
            distances = np.sqrt(rows.distances(None if center is None else center.__getitem__))
            radius = self.radius or float(np.median(distances))
            passed = _passed(distances, radius)
            moved = rows.combine(passed / rows.n)
            center = moved if center is None else moved + float(1 - passed.mean()) * center
        return Estimate(center, passed / passed.sum(), iterations=self.iterations, stopped="clipped")

    def _weighted(self, rows: Rows, shares: Vector) -> Estimate:
        """Average the differences by their shares; without a radius it is their weighted median."""
        center, passed = rows.previous, np.ones(rows.n)
        for _ in range(self.iterations):
            distances = np.sqrt(rows.distances(None if center is None else center.__getitem__))
            passed = _passed(distances, self.radius or weighted_median(distances, shares))
            moved = rows.combine(passed * shares)
            center = moved if center is None else moved + float(1 - passed @ shares) * center
        weights = passed * shares
        return Estimate(center, weights / weights.sum(), iterations=self.iterations, stopped="clipped")


def _passed(distances: Vector, radius: float) -> Vector:
    """Return how much of each difference passes the clipping."""
    return np.minimum(1, np.divide(radius, distances, out=np.ones(len(distances)), where=distances > radius))
