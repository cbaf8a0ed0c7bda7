"""No-regret filtering by multiplicative weights (Wang et al., arXiv 2205.11765)."""

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.estimators._linalg.gram import squared_distances
from f2ed.estimators._linalg.spectrum import widest
from f2ed.estimators.base import Fraction, Weights, withstood
from f2ed.estimators.gram_rule import GramRule, RowWeights
from f2ed.estimators.krum import krum_scores

__all__ = ["NoRegret"]


class NoRegret(GramRule, frozen=True, tag="no-regret"):
    """Shrink the weights of rows that stick out, and never let one row weigh more than 1 / ((1 - contamination) n).

    The rows with the f largest Krum scores are left out first, since the step size is set by the two
    rows that lie farthest apart. Of at most 2f iterates the one with the smallest largest
    variance is answered, or, with `sigma`, the first whose variance is at most eta sigma².
    """

    title = "No-regret filter"
    family = "spectral"
    paper = "Wang et al., arXiv 2205.11765, 2022"

    contamination: Fraction
    sigma: Annotated[float, msgspec.Meta(gt=0.0)] | None = None
    eta: Annotated[float, msgspec.Meta(gt=0.0)] = 20.0

    def weigh(self, gram: npt.NDArray[np.float64]) -> RowWeights:
        """Prune, then play the multiplicative weights."""
        n = len(gram)
        feared = withstood(self.contamination, n)
        squares = squared_distances(gram)
        kept = np.sort(np.argsort(krum_scores(squares, feared), kind="stable")[: n - feared]) if n > 2 else np.arange(n)
        farthest = float(squares[np.ix_(kept, kept)].max())
        best, least, steps, stopped = self._play(gram[np.ix_(kept, kept)], 2 * feared, farthest)
        weights = np.zeros(n)
        weights[kept] = best
        return RowWeights(weights, least, steps, stopped)

    def _play(self, gram: npt.NDArray[np.float64], rounds: int, farthest: float) -> tuple[Weights, float, int, str]:
        weights = np.full(len(gram), 1 / len(gram))
        best, least = weights, np.inf
        for step in range(rounds + 1):
            spread = widest(gram, weights)
            if spread.eigenvalue < least:
                best, least = weights, spread.eigenvalue
            if spread.eigenvalue == 0:
                return weights, 0.0, step, "the rows left agree"
            if self.sigma is not None and spread.eigenvalue <= self.eta * self.sigma**2:
                return weights, spread.eigenvalue, step, "the largest variance is small enough"
            weights = _cap(weights * (1 - spread.scores / (2 * farthest)), 1 / ((1 - self.contamination) * len(gram)))
        return best, float(least), rounds, "all rounds are played"


def _cap(weights: Weights, cap: float) -> Weights:
    """Return the distribution nearest in relative entropy with no entry above the cap."""
    weights = weights / weights.sum()
    ordered = np.sort(weights)[::-1]
    for capped in range(len(weights)):
        factor = (1 - capped * cap) / ordered[capped:].sum()
        if ordered[capped] * factor <= cap * (1 + 1e-12):
            return np.asarray(np.minimum(weights * factor, cap))
    return np.full(len(weights), 1 / len(weights))
