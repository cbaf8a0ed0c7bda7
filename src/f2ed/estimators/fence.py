"""Two stages: a rule over rows, then a fence in every coordinate."""

from dataclasses import replace
from typing import Annotated, Literal

import msgspec
import numpy as np

import f2ed.estimators as registry
from f2ed.core.arrays import Array, like, namespace
from f2ed.estimators._linalg import columns
from f2ed.estimators._linalg.rows import Index, Rows
from f2ed.estimators.base import Estimate, Weights, spread_over
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.filter_l2 import FilterL2
from f2ed.estimators.hard_weights import weights_of

__all__ = ["Fence", "fenced", "heaviest"]

Cut = Literal["winsorize", "trim", "nearest"]
_MANY = 5  # one malicious row in so many is many


class Fence(BoundedEstimator, frozen=True, kw_only=True, tag="fence"):
    """Keep the n - f rows that the inner rule (FilterL2) weighs most, and bound what they say in each coordinate.

    Rows that agree with one another pass a filter over rows however patiently they push. The fence takes the kept
    values of a coordinate and moves those beyond the `drop`-th from either end to it (`cut = "winsorize"`), leaves them
    out (`"trim"`), or averages only the values nearest the median, all but 2 `drop` of them (`"nearest"`: Bulyan with
    another rule inside); drop is f, but at most the share `most` of the rows kept. With `select = false` the fence
    stands alone, and all rows are kept; `"auto"` selects if f is at least a fifth of the rows. With few malicious rows
    the fence alone bounds them, and the first stage would cost honest rows; with many, whole rows have to go first.

    The first stage keeps its dimension-free bound on the rows that it keeps. The second is coordinate-wise: what it can
    add to the error grows with the square root of the dimension where honest rows disagree.
    """

    title = "Fence"
    family = "pre-aggregation"
    paper = "after Bulyan, El Mhamdi et al., ICML 2018"
    uses_previous = False

    inner: "registry.AnyEstimator | None" = None
    cut: Cut = "winsorize"
    most: Annotated[float, msgspec.Meta(ge=0, lt=0.5)] = 1 / 3
    select: bool | Literal["auto"] = True

    def estimate(self, rows: Rows) -> Estimate:
        """Weigh the rows, then sort each column of those kept."""
        f = self.tolerated(rows.n)
        if not (_MANY * f >= rows.n if self.select == "auto" else self.select):
            weights = np.full(rows.n, 1 / rows.n)
            mean = fenced(rows, np.arange(rows.n), weights, self._drop(f, rows.n), self.cut)
            return Estimate(mean, weights, stopped=f"all {rows.n} rows kept")
        inner = self.inner or FilterL2(contamination=self.contamination, f=self.f)
        first = inner.estimate(rows)
        found = weights_of(first, "fence", inner)
        kept = heaviest(found, rows.n - f)
        weights = found[kept] / found[kept].sum()
        mean = fenced(rows, kept, weights, self._drop(f, len(kept)), self.cut)
        return replace(first, mean=mean, weights=spread_over(weights, kept, rows.n))

    def _drop(self, f: int, kept: int) -> int:
        return min(f, int(self.most * kept + 1e-9))


def heaviest(weights: Weights, count: int) -> Index:
    """Return the `count` rows of largest weight, and those with the same weight as the last of them."""
    order = np.argsort(-weights, kind="stable")
    last = weights[order[count - 1]]
    return np.flatnonzero(weights >= last) if last > 0 else np.sort(order[:count])


def fenced(rows: Rows, kept: Index, weights: Weights, drop: int, cut: Cut) -> Array:
    """Return the mean of the kept rows with `drop` values bounded at either end of each coordinate."""
    some = np.maximum(weights, 1e-9 / len(weights))  # where only rejected rows are inside, they count

    def work(block: Array) -> Array:
        ordered, xp = columns.sort(block), namespace(block)
        if cut == "nearest":
            return columns.nearest(ordered, len(kept) - 2 * drop)
        low, high = ordered[drop], ordered[-1 - drop]
        if cut == "winsorize":
            return like(block, weights) @ xp.clip(block, low, high)
        inside, shares = (block >= low) & (block <= high), like(block, some)
        counted = xp.where(inside, block - low, xp.zeros_like(low))
        return low + shares @ counted / (shares @ like(block, inside))

    return (rows if len(kept) == rows.n else rows.select(kept)).fill(work, blas=cut != "nearest")
