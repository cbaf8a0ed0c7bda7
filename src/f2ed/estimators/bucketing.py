"""Bucketing (Karimireddy et al., ICLR 2022)."""

from dataclasses import replace
from typing import Annotated

import msgspec
import numpy as np

import f2ed.estimators as registry
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator

__all__ = ["Bucketing"]


class Bucketing(Estimator, frozen=True, tag="bucketing"):
    """Deal the rows at random into buckets of `size` (the last may be smaller) and average each, before the inner rule.

    The inner rule sees buckets, so its `contamination` is a fraction of those: one malicious row spoils one.
    """

    title = "Bucketing"
    family = "pre-aggregation"
    paper = "Karimireddy, He and Jaggi, ICLR 2022"

    size: Annotated[int, msgspec.Meta(ge=1)]
    inner: "registry.AnyEstimator"

    def estimate(self, rows: Rows) -> Estimate:
        """Deal with the generator given to the call."""
        order = rows.rng.permutation(rows.n)
        mixing = np.zeros((-(-rows.n // self.size), rows.n))
        for bucket, first in zip(mixing, range(0, rows.n, self.size), strict=True):
            members = order[first : first + self.size]
            bucket[members] = 1 / len(members)
        inner = self.inner.estimate(rows.mix(mixing))
        return inner if inner.weights is None else replace(inner, weights=inner.weights @ mixing)
