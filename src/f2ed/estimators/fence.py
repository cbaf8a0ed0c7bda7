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
from f2ed.estimators.gram_rule import uniform
from f2ed.estimators.hard_weights import per_weight, weights_of

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
    weighted = True

    inner: "registry.AnyEstimator | None" = None
    cut: Cut = "winsorize"
    most: Annotated[float, msgspec.Meta(ge=0, lt=0.5)] = 1 / 3
    select: bool | Literal["auto"] = True

    def estimate(self, rows: Rows) -> Estimate:
        """Weigh the rows, then sort each column of those kept."""
        f, prior = self.tolerated(rows.n), rows.prior
        total, malicious = (rows.n, f) if prior is None else (float(prior.sum()), self.tolerated_weight(prior))
        if not (_MANY * malicious >= total if self.select == "auto" else self.select):
            every = np.arange(rows.n)
            weights = uniform(every, rows.n, prior)
            mean = fenced(rows, every, weights, min(malicious, self.most * total), self.cut)
            return Estimate(mean, weights, stopped=f"all {rows.n} rows kept")
        inner = self.inner or FilterL2(contamination=self.contamination, f=self.f)
        first = inner.estimate(rows)
        found = weights_of(first, "fence", inner)
        kept = heaviest(found, total - malicious, prior)
        weights = found[kept] / found[kept].sum()
        left = len(kept) if prior is None else float(prior[kept].sum())
        mean = fenced(rows, kept, weights, min(malicious, self.most * left), self.cut)
        return replace(first, mean=mean, weights=spread_over(weights, kept, rows.n))


def heaviest(weights: Weights, total: float, prior: Weights | None = None) -> Index:
    """Return the rows of largest weight for what they count, `total` of them, and those that got as much as the last.

    Without `prior` every row counts as one.
    """
    each = per_weight(weights, prior)
    if prior is not None:
        each = np.round(each / each.max(), 9)  # rows that got the same differ by rounding
    order = np.argsort(-each, kind="stable")
    counted = np.cumsum(np.ones(len(order)) if prior is None else prior[order])
    count = int(np.searchsorted(counted, total * (1 - 1e-12))) + 1
    last = each[order[count - 1]]
    return np.flatnonzero(each >= last) if last > 0 else np.sort(order[:count])


def fenced(rows: Rows, kept: Index, weights: Weights, cut_off: float, cut: Cut) -> Array:
    """Return the mean of the kept rows with a weight of `cut_off` bounded at either end of each coordinate."""
    some = np.maximum(weights, 1e-9 / len(weights))  # where only rejected rows are inside, they count
    prior = None if rows.prior is None else rows.prior[kept]
    drop = int(cut_off + 1e-9)

    def work(block: Array) -> Array:
        xp = namespace(block)
        if cut == "nearest":
            if prior is not None:
                return columns.weighted_nearest(block, prior, float(prior.sum()) - 2 * cut_off)
            return columns.nearest(columns.sort(block), len(kept) - 2 * drop)
        if prior is None:
            ordered = columns.sort(block)
            low, high = ordered[drop], ordered[-1 - drop]
        else:
            low, high = columns.weighted_bounds(block, prior, cut_off)
        if cut == "winsorize":
            return like(block, weights) @ xp.clip(block, low, high)
        inside, shares = (block >= low) & (block <= high), like(block, some)
        counted = xp.where(inside, block - low, xp.zeros_like(low))
        return low + shares @ counted / (shares @ like(block, inside))

    return (rows if len(kept) == rows.n else rows.select(kept)).fill(work, blas=cut != "nearest")
