"""Resilience filter (after Steinhardt, Charikar and Valiant 2018; truncated power method of Yuan and Zhang 2013)."""

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.estimators.base import Weights
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.gram_rule import GramRule, RowWeights, uniform

__all__ = ["Resilience"]

Matrix = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
_STARTS = 8
_STEPS = 30


class Resilience(GramRule, BoundedEstimator, frozen=True, kw_only=True, tag="resilience"):
    """Reject the f rows that together move the mean farthest; then again, with the spectrum flattened more and more.

    Honest rows differ, but each in its own way: any f of them move the mean little. Rows that agree with each other
    beyond that, however close to the mean each of them is, move it far. A variance filter looks for one direction in
    which all rows vary, and misses f rows that agree within the honest spread. Here the typical squared deviation of a
    row is subtracted from every row's own, so that what counts is agreement among rows.

    Where clients differ in a few directions, such as their classes, agreement along these is honest and hides another.
    So for each of the quantiles in `flatten`, eigenvalues of the Gram matrix above it are reduced to it, and f further
    rows go. The rows are chosen by truncated power iteration from several starts, which may miss the farthest set. No
    bound on the error is known.
    """

    title = "Resilience filter"
    family = "spectral"
    paper = "after Steinhardt et al., ITCS 2018"
    needs = "every pass can reject f rows and a majority is left"

    flatten: tuple[Annotated[float, msgspec.Meta(ge=0.0, le=1.0)], ...] = (0.9, 0.5)

    def weigh(self, gram: Matrix, prior: Weights | None = None) -> RowWeights:  # noqa: ARG002  all rows count the same
        """Give equal weight to the rows that are left."""
        n = len(gram)
        f, left = self.tolerated(n), np.arange(n)
        for quantile in (1.0, *self.flatten) if f else ():
            among = _flattened(_centered(gram[np.ix_(left, left)]), quantile)
            left = np.delete(left, _movers(among, f))
        return RowWeights(uniform(left, n), None, 0, f"{n - len(left)} rows rejected")

    def max_f(self, n: int) -> int:
        """Leave a majority after all passes."""
        return (n - 1) // 2 // (1 + len(self.flatten))


def _centered(gram: Matrix) -> Matrix:
    means = gram.mean(0)
    return np.asarray(gram - means - means[:, None] + means.mean())


def _flattened(gram: Matrix, quantile: float) -> Matrix:
    """Reduce eigenvalues above a quantile of them to it."""
    if quantile == 1:
        return gram
    values, vectors = np.linalg.eigh(gram)
    return np.asarray((vectors * np.minimum(values, np.quantile(values, quantile))) @ vectors.T)


def _movers(centered: Matrix, f: int) -> Index:
    """Return f rows whose sum is about the longest, beyond what the rows' own typical length explains."""
    own = centered.diagonal()
    beyond = centered - np.diag(np.minimum(own, np.median(own)))
    near = beyond.copy()
    np.fill_diagonal(near, np.inf)
    sets = _largest(near, f)
    lengths = _squared_sums(beyond, sets)
    best = np.argsort(-lengths, kind="stable")[:_STARTS]
    sets, lengths, excess = sets[best], lengths[best], beyond.diagonal() / 2
    for _ in range(_STEPS):
        along = sets @ beyond
        # What the squared length changes by, to first order, if a row joins or leaves.
        moved = _largest(np.where(sets > 0, along - excess, along + excess), f)
        found = _squared_sums(beyond, moved)
        longer = found > lengths * (1 + 1e-12)
        if not longer.any():
            break
        sets[longer], lengths[longer] = moved[longer], found[longer]
    return np.flatnonzero(sets[int(lengths.argmax())])


def _largest(scores: Matrix, f: int) -> Matrix:
    """Return, in each row, ones at the f largest scores."""
    chosen = np.zeros(scores.shape)
    np.put_along_axis(chosen, np.argsort(-scores, axis=1, kind="stable")[:, :f], 1.0, axis=1)
    return chosen


def _squared_sums(gram: Matrix, sets: Matrix) -> Weights:
    return np.asarray(((sets @ gram) * sets).sum(axis=1))
