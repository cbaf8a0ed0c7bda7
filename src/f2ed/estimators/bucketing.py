"""Bucketing (Karimireddy et al., ICLR 2022)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import msgspec
import numpy as np

import f2ed.estimators as registry
from f2ed.estimators._linalg.rows import Rows
from f2ed.estimators.base import Estimate, Estimator

__all__ = ["Bucketing"]


class Bucketing(Estimator, frozen=True, tag="bucketing"):
    """Average random buckets of `size` rows (the last may be smaller), before the inner rule.

    The inner rule sees buckets, so its `contamination` is a share of buckets: one malicious row contaminates one.
    """

    title = "Bucketing"
    family = "pre-aggregation"
    paper = "Karimireddy, He and Jaggi, ICLR 2022"
    uses_previous = False
    weighted = True

    size: Annotated[int, msgspec.Meta(ge=1)]
    inner: "registry.AnyEstimator"

    def estimate(self, rows: Rows) -> Estimate:
        """Draw the buckets with the generator given to the call."""
        order = rows.rng.permutation(rows.n)
        mixing = np.zeros((-(-rows.n // self.size), rows.n))
        for bucket, first in zip(mixing, range(0, rows.n, self.size), strict=True):
            members = order[first : first + self.size]
            bucket[members] = 1 / len(members) if rows.prior is None else rows.prior[members]
        prior = None
        if rows.prior is not None:
            prior = mixing.sum(axis=1)
            mixing /= prior[:, None]
        inner = self.inner.estimate(rows.mix(mixing, prior))
        return inner if inner.weights is None else replace(inner, weights=inner.weights @ mixing)

    @classmethod
    def inner_rows(cls, n: int, settings: Mapping[str, Any]) -> int:
        """Return the number of buckets; n where the size is not a valid one."""
        size = settings.get("size")
        return -(-n // size) if isinstance(size, int) and size > 0 else n
