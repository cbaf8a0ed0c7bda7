"""Smallest maximum eigenvalue averaging (SMEA, Allouah et al. 2023)."""

from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError
from f2ed.estimators._linalg.spectrum import widest
from f2ed.estimators.base import Fraction, withstood
from f2ed.estimators.gram_rule import GramRule, RowWeights, uniform

__all__ = ["SMEA"]

Matrix = npt.NDArray[np.float64]
_MOST_SETS = 5_000_000


class SMEA(GramRule, frozen=True, tag="smea"):
    """Average the n - f rows whose covariance has the smallest top eigenvalue, over all such sets.

    Exact, yet few eigenproblems are solved: the variance of every set along one fixed direction bounds
    its top eigenvalue from below, and the set with the smallest bound is solved next, which gives
    a direction more. Refuses more than five million sets.
    """

    title = "SMEA"
    family = "spectral"
    paper = "Allouah et al., ICML 2023"

    contamination: Fraction

    def weigh(self, gram: Matrix) -> RowWeights:
        """Tighten the bounds until the set with the smallest one attains it."""
        n = len(gram)
        drop = withstood(self.contamination, n)
        if comb(n, drop) > _MOST_SETS:
            fits = next(f for f in range(drop, -1, -1) if comb(n, f) <= _MOST_SETS)
            raise ConfigError(
                f"SMEA would compare {comb(n, drop):,} sets of {n - drop} of {n} rows; the largest f that works "
                f"is {fits}, contamination = {fits / n:.3g}. FilterL2 needs no sets"
            )
        dropped = np.array(list(combinations(range(n), drop)), dtype=np.intp).reshape(comb(n, drop), drop)
        bounds = np.zeros(len(dropped))
        solved = 0
        while True:
            best = int(bounds.argmin())
            weights = np.ones(n)
            weights[dropped[best]] = 0
            spread = widest(gram, weights)
            solved += 1
            if spread.eigenvalue <= bounds[best] * (1 + 1e-12):
                kept = np.flatnonzero(weights)
                return RowWeights(uniform(kept, n), spread.eigenvalue, solved, "no other set can be narrower")
            bounds = np.maximum(bounds, _variance(spread.along, dropped))
            bounds[best] = spread.eigenvalue


def _variance(along: npt.NDArray[np.float64], dropped: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Return the variance of the coordinates `along` a direction, for every set of rows dropped."""
    left = len(along) - dropped.shape[1]
    out = along[dropped]
    mean = (along.sum() - out.sum(axis=1)) / left
    return np.asarray((along @ along - (out * out).sum(axis=1)) / left - mean * mean)
