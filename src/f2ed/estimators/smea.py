"""Smallest maximum eigenvalue averaging (SMEA, Allouah et al. 2023)."""

from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError
from f2ed.estimators._linalg.spectrum import widest
from f2ed.estimators.base import Weights
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.gram_rule import GramRule, RowWeights, uniform

__all__ = ["SMEA"]

Matrix = npt.NDArray[np.float64]
_MAX_SETS = 5_000_000


class SMEA(GramRule, BoundedEstimator, frozen=True, tag="smea"):
    """Average the n - f rows whose covariance has the smallest top eigenvalue.

    Exact, yet few eigenproblems are solved: the variance of a set along any fixed direction bounds its top eigenvalue
    from below; the set with the smallest bound is solved next, which yields another direction. More than five million
    sets are refused.
    """

    title = "SMEA"
    family = "spectral"
    paper = "Allouah et al., ICML 2023"
    weighted = True

    def weigh(self, gram: Matrix, prior: Weights | None = None) -> RowWeights:
        """Tighten the bounds until the set with the smallest bound attains it."""
        n = len(gram)
        drop = self.tolerated(n)
        if comb(n, drop) > _MAX_SETS:
            fits = next(f for f in range(drop, -1, -1) if comb(n, f) <= _MAX_SETS)
            raise ConfigError(
                f"SMEA would compare {comb(n, drop):,} sets of {n - drop} of {n} rows; the largest f that works "
                f"is {fits}, contamination = {fits / n:.3g}. FilterL2 compares no sets"
            )
        dropped = np.array(list(combinations(range(n), drop)), dtype=np.intp).reshape(comb(n, drop), drop)
        bounds = np.zeros(len(dropped))
        solved = 0
        while True:
            best = int(bounds.argmin())
            weights = np.ones(n) if prior is None else prior.copy()
            weights[dropped[best]] = 0
            spread = widest(gram, weights)
            solved += 1
            if spread.eigenvalue <= bounds[best] * (1 + 1e-12):
                kept = np.flatnonzero(weights)
                return RowWeights(
                    uniform(kept, n, prior), spread.eigenvalue, solved, "no other set has a smaller eigenvalue"
                )
            bounds = np.maximum(bounds, _variance(spread.along, dropped, prior))
            bounds[best] = spread.eigenvalue


def _variance(
    along: npt.NDArray[np.float64], dropped: npt.NDArray[np.intp], prior: Weights | None
) -> npt.NDArray[np.float64]:
    """Return the variance of the coordinates `along` a direction, for every set of dropped rows."""
    if prior is not None:
        lost, moments = prior[dropped], (prior * along, prior * along * along)
        kept = prior.sum() - lost.sum(axis=1)
        first, second = ((moment.sum() - moment[dropped].sum(axis=1)) / kept for moment in moments)
        return np.asarray(second - first * first)
    left = len(along) - dropped.shape[1]
    out = along[dropped]
    mean = (along.sum() - out.sum(axis=1)) / left
    return np.asarray((along @ along - (out * out).sum(axis=1)) / left - mean * mean)
