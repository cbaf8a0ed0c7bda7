"""Two stages: a rule over rows, then a fence in every coordinate."""

from dataclasses import replace
from typing import Annotated, Literal

import msgspec
import numpy as np

import f2ed.estimators as registry
from f2ed.core.arrays import Array, like, namespace
from f2ed.core.errors import ConfigError
from f2ed.estimators._linalg import columns
from f2ed.estimators._linalg.rows import Index, Rows, Vector
from f2ed.estimators.base import Estimate
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.filter_l2 import FilterL2

__all__ = ["Fence"]


class Fence(BoundedEstimator, frozen=True, kw_only=True, tag="fence"):
    """Keep the n - f rows that the inner rule (FilterL2) weighs most, and bound what they say in each coordinate.

    Rows that agree with one another pass a filter over rows however patiently they push. The fence takes the kept
    values of a coordinate and moves those beyond the `drop`-th from either end to it (`cut = "winsorize"`), or leaves
    them out (`"trim"`); drop is f, but at most the share `most` of the rows kept.

    The first stage keeps its dimension-free bound on the rows that it keeps. The second is coordinate-wise: what it can
    add to the error grows with the square root of the dimension where honest rows disagree.
    """

    title = "Fence"
    family = "pre-aggregation"
    paper = "after Bulyan, El Mhamdi et al., ICML 2018"

    inner: "registry.AnyEstimator | None" = None
    cut: Literal["winsorize", "trim"] = "winsorize"
    most: Annotated[float, msgspec.Meta(ge=0, lt=0.5)] = 1 / 3

    def estimate(self, rows: Rows) -> Estimate:
        """Weigh the rows, then sort each column of those kept."""
        f = self.tolerated(rows.n)
        first = (self.inner or FilterL2(contamination=self.contamination, f=self.f)).estimate(rows)
        if first.weights is None:
            raise ConfigError(f"fence: {type(self.inner).__name__} weighs no rows; use a rule that does, as FilterL2")
        kept = np.sort(np.argsort(-first.weights, kind="stable")[: rows.n - f])
        weights = first.weights[kept] / first.weights[kept].sum()
        drop = min(f, int(self.most * len(kept) + 1e-9))
        mean = self._fenced(rows, kept, weights, drop)
        everyone = np.zeros(rows.n)
        everyone[kept] = weights
        return replace(first, mean=mean, weights=everyone)

    def _fenced(self, rows: Rows, kept: Index, weights: Vector, drop: int) -> Array:
        def fenced(block: Array) -> Array:
            ordered, xp = columns.sort(block), namespace(block)
            low, high = ordered[drop], ordered[-1 - drop]
            if self.cut == "winsorize":
                return like(block, weights) @ xp.clip(block, low, high)
            inside = like(block, weights)[:, None] * ((block >= low) & (block <= high))
            return (inside * block).sum(0) / inside.sum(0)

        return rows.select(kept).fill(fenced)
