"""Resilience filter (after Steinhardt, Charikar and Valiant 2018; truncated power method of Yuan and Zhang 2013)."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from f2ed.estimators.base import Weights
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.filter_l2 import FilterL2
from f2ed.estimators.gram_rule import GramRule, RowWeights, uniform

__all__ = ["Resilience"]

Matrix = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
_STARTS = 8
_STEPS = 30


class Resilience(GramRule, BoundedEstimator, frozen=True, kw_only=True, tag="resilience"):
    """Reject the f rows that together move the mean farthest, twice: as they are, and with the spectrum flattened.

    Honest rows differ, but each in its own way: any f of them move the mean little. Rows that agree with each other
    beyond that, however close to the mean each of them is, move it far. A variance filter looks for one direction in
    which all rows vary, and misses f rows that agree within the honest spread. Here the typical squared deviation of a
    row is subtracted from every row's own, so that what counts is agreement among rows.

    Where clients differ in a few directions, such as their classes, agreement along these is honest and hides another.
    So the second time all larger eigenvalues of the Gram matrix are reduced to their median, and f further rows go.
    `second = "cosine"` scales rows to length one instead, and "none" leaves it out; `first = "filter"` begins with
    FilterL2. The rows are chosen by truncated power iteration from several starts, which may miss the farthest set.
    """

    title = "Resilience filter"
    family = "spectral"
    paper = "after Steinhardt et al., ITCS 2018"
    needs = "n >= 4f + 1"

    first: Literal["influence", "filter"] = "influence"
    second: Literal["flat", "cosine", "none"] = "flat"

    def weigh(self, gram: Matrix, prior: Weights | None = None) -> RowWeights:  # noqa: ARG002  all rows count the same
        """Give equal weight to the rows that are left."""
        n = len(gram)
        f = self.tolerated(n)
        left = np.arange(n)
        if f:
            left = self._first(gram, f)
        if f and self.second != "none":
            among = _centered(gram[np.ix_(left, left)])
            among = _flattened(among) if self.second == "flat" else _scaled(among)
            left = np.delete(left, _movers(among, f))
        return RowWeights(uniform(left, n), None, 0, f"{n - len(left)} rows rejected")

    def max_f(self, n: int) -> int:
        """Solve n >= 4f + 1: a majority is left."""
        return (n - 1) // 4

    def _first(self, gram: Matrix, f: int) -> Index:
        if self.first == "filter":
            weights = FilterL2(f=f).weigh(gram).weights
            return np.flatnonzero(weights >= np.median(weights[weights > 0]) / 2)
        return np.delete(np.arange(len(gram)), _movers(_centered(gram), f))


def _centered(gram: Matrix) -> Matrix:
    means = gram.mean(0)
    return np.asarray(gram - means - means[:, None] + means.mean())


def _flattened(gram: Matrix) -> Matrix:
    """Reduce eigenvalues above the median to it."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray((vectors * np.minimum(values, np.median(values))) @ vectors.T)


def _scaled(gram: Matrix) -> Matrix:
    lengths = np.sqrt(np.maximum(gram.diagonal(), 0))
    factors = np.divide(1.0, lengths, out=np.zeros(len(gram)), where=lengths > 0)
    return np.asarray(gram * factors * factors[:, None])


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
