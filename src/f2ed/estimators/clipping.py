"""Clipping the rows' lengths before another rule: at a fixed radius, or adaptively (ARC, Allouah et al. 2025)."""

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

import f2ed.estimators as registry
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator, Fraction, withstood

__all__ = ["ARC", "Clipping"]


class Clipping(Estimator, frozen=True, tag="clipping"):
    """Shorten every row longer than `radius` to that length, before the inner rule."""

    title = "Clipping"
    family = "pre-aggregation"
    paper = "Sun et al., 2019"

    radius: Annotated[float, msgspec.Meta(gt=0.0)]
    inner: "registry.AnyEstimator"

    def estimate(self, rows: Rows) -> Estimate:
        """Measure the lengths in one direct pass."""
        return self.inner.estimate(rows.scale(_factors(_lengths(rows), self.radius)))


class ARC(Estimator, frozen=True, tag="arc"):
    """Shorten the floor(2 f (n - f) / n) longest rows to the length of the longest that is left alone."""

    title = "ARC"
    family = "pre-aggregation"
    paper = "Allouah et al., 2025"

    contamination: Fraction
    inner: "registry.AnyEstimator"

    def estimate(self, rows: Rows) -> Estimate:
        """Find the length to clip at among the rows' own."""
        feared, lengths = withstood(self.contamination, rows.n), _lengths(rows)
        clipped = int(2 * feared / rows.n * (rows.n - feared))
        return self.inner.estimate(rows.scale(_factors(lengths, float(np.sort(lengths)[rows.n - clipped - 1]))))


def _lengths(rows: Rows) -> npt.NDArray[np.float64]:
    return np.sqrt(rows.distances(None))


def _factors(lengths: npt.NDArray[np.float64], radius: float) -> npt.NDArray[np.float64]:
    return np.divide(radius, lengths, out=np.ones(len(lengths)), where=lengths > radius)
