"""Centered clipping (Karimireddy et al., ICML 2021)."""

from typing import Annotated

import msgspec
import numpy as np

from f2ed.estimators._linalg.rows import Rows
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

    radius: Annotated[float, msgspec.Meta(gt=0.0)] | None = None
    iterations: Annotated[int, msgspec.Meta(ge=1)] = 1

    def estimate(self, rows: Rows) -> Estimate:
        """Clip and move, `iterations` times."""
        center, passed = rows.previous, np.ones(rows.n)
        for _ in range(self.iterations):
            distances = np.sqrt(rows.distances(None if center is None else center.__getitem__))
            radius = self.radius or float(np.median(distances))
            passed = np.minimum(1, np.divide(radius, distances, out=np.ones(rows.n), where=distances > radius))
            moved = rows.combine(passed / rows.n)
            center = moved if center is None else moved + float(1 - passed.mean()) * center
        return Estimate(center, passed / passed.sum(), iterations=self.iterations, stopped="clipped")
