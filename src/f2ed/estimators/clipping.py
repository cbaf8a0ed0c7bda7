"""Clipping the norms of the rows before another rule: at a fixed radius, at the median norm, or adaptively."""

from dataclasses import replace
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

import f2ed.estimators as registry
from f2ed.core.arrays import like
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator
from f2ed.estimators.bounded import BoundedEstimator

__all__ = ["ARC", "Clipping", "MedianClipping"]


class Clipping(Estimator, frozen=True, tag="clipping"):
    """Scale every row with a norm above `radius` down to it, before the inner rule."""

    title = "Clipping"
    family = "pre-aggregation"
    paper = "Sun et al., 2019"
    uses_previous = False
    weighted = True

    radius: Annotated[float, msgspec.Meta(gt=0.0)]
    inner: "registry.AnyEstimator"

    def estimate(self, rows: Rows) -> Estimate:
        """Compute the norms in one direct pass."""
        return self.inner.estimate(rows.scale(_factors(_lengths(rows), self.radius)))


class MedianClipping(Estimator, frozen=True, tag="median-clipping"):
    """Scale every row with a norm above the median norm down to it, before the inner rule; add noise afterwards.

    No row counts more than an honest one of median length, while fewer than half of the rows are malicious. `noise` is
    the standard deviation of Gaussian noise in each coordinate as a share of the median norm, 0.001 in FLAME: it blurs
    what a backdoor needs more exactly than the task does. The inner rule's bound holds for the clipped rows.
    """

    title = "Median clipping"
    family = "pre-aggregation"
    paper = "Sun et al., 2019; FLAME, Nguyen et al., USENIX Security 2022"
    uses_previous = False
    weighted = True

    inner: "registry.AnyEstimator"
    noise: Annotated[float, msgspec.Meta(ge=0.0)] = 0.0

    def estimate(self, rows: Rows) -> Estimate:
        """Take the radius from the norms of the rows, in one direct pass."""
        lengths = _lengths(rows)
        radius = float(np.median(lengths))
        first = self.inner.estimate(rows.scale(_factors(lengths, radius)))
        if not self.noise:
            return first
        drawn = rows.rng.standard_normal(rows.d) * (self.noise * radius)
        return replace(first, mean=first.mean + like(first.mean, drawn))


class ARC(BoundedEstimator, frozen=True, kw_only=True, tag="arc"):
    """Scale the floor(2 f (n - f) / n) longest rows down to the largest other norm, before the inner rule."""

    title = "ARC"
    family = "pre-aggregation"
    paper = "Allouah et al., 2025"
    uses_previous = False
    weighted = True

    inner: "registry.AnyEstimator"

    def estimate(self, rows: Rows) -> Estimate:
        """Take the clipping radius from the norms of the rows."""
        f, lengths = self.tolerated(rows.n), _lengths(rows)
        clipped = int(2 * f / rows.n * (rows.n - f))
        return self.inner.estimate(rows.scale(_factors(lengths, float(np.sort(lengths)[rows.n - clipped - 1]))))


def _lengths(rows: Rows) -> npt.NDArray[np.float64]:
    return np.sqrt(rows.distances(None))


def _factors(lengths: npt.NDArray[np.float64], radius: float) -> npt.NDArray[np.float64]:
    return np.divide(radius, lengths, out=np.ones(len(lengths)), where=lengths > radius)
