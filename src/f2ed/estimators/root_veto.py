"""A trusted update as a veto (the root data set of FLTrust, Cao et al., NDSS 2021, used as a veto)."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import f2ed.estimators as registry
from f2ed.core.arrays import Array, double, to_numpy
from f2ed.core.errors import ConfigError
from f2ed.estimators._linalg.rows import Rows, Vector
from f2ed.estimators.base import Estimate, Estimator, spread_over

__all__ = ["RootVeto"]


class RootVeto(Estimator, frozen=True, tag="root-veto"):
    """Reject the rows that point away from the server's own update, then apply the inner rule to the others.

    The root update comes from a small data set that the server trusts. It only vetoes, where the cosine is negative;
    FLTrust also weighs the rows by their cosines, which is weak where clients differ. If every row is vetoed, the round
    has no result. The inner rule's bound holds on the rows that are left; an f stays the same, a contamination is a
    share of them.
    """

    title = "Root veto"
    family = "pre-aggregation"
    paper = "after FLTrust, Cao et al., NDSS 2021"
    uses_previous = False
    uses_root = True
    weighted = True

    inner: "registry.AnyEstimator"

    def estimate(self, rows: Rows) -> Estimate:
        """Compute the products with the root update in one pass."""
        if rows.root is None:
            raise ConfigError("root-veto needs a trusted update: call with root=…, or state root in the experiment")
        kept = np.flatnonzero(_products(rows, rows.root) >= 0)
        if not kept.size:
            raise ConfigError(f"all {rows.n} rows point away from the root update; the model stays as it is")
        inner = self.inner.estimate(rows.select(kept))
        weights, reputation = (spread_over(each, kept, rows.n) for each in (inner.weights, inner.reputation))
        stopped = f"{rows.n - len(kept)} rows vetoed" + (f"; {inner.stopped}" if inner.stopped else "")
        return replace(inner, weights=weights, reputation=reputation, stopped=stopped)


def _products(rows: Rows, root: Array) -> Vector:
    def work(blocks: Iterator[slice]) -> Array:
        return sum(double(rows.block(columns)) @ double(root[columns]) for columns in blocks)

    products = np.asarray(sum(np.asarray(to_numpy(part)) for part in rows.walk(work)))
    if not np.isfinite(products).all():
        rows.distances(None)  # raises where a row is the reason
        raise ConfigError("the root update is not finite")
    return products
