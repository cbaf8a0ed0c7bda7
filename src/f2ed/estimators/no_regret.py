"""No-regret filtering by multiplicative weights (Wang et al., arXiv 2205.11765)."""

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.estimators._linalg.gram import squared_distances
from f2ed.estimators._linalg.spectrum import widest
from f2ed.estimators.base import Weights
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.gram_rule import GramRule, RowWeights
from f2ed.estimators.krum import row_scores

__all__ = ["NoRegret"]


class NoRegret(GramRule, BoundedEstimator, frozen=True, tag="no-regret"):
    """Shrink the weights of outliers by multiplicative updates, capping each weight at 1 / ((1 - contamination) n).

    The rows with the f largest Krum scores are left out first, since the two rows farthest apart set the step size.
    It returns, of at most 2f iterates, the one whose largest variance is smallest, or with `sigma` the first whose
    variance is at most eta sigma².
    """

    title = "No-regret filter"
    family = "spectral"
    paper = "Wang et al., arXiv 2205.11765, 2022"
    weighted = True

    sigma: Annotated[float, msgspec.Meta(gt=0.0)] | None = None
    eta: Annotated[float, msgspec.Meta(gt=0.0)] = 20.0

    def weigh(self, gram: npt.NDArray[np.float64], prior: Weights | None = None) -> RowWeights:
        """Prune, then update the weights."""
        n = len(gram)
        f = self.tolerated(n)
        squares = squared_distances(gram)
        kept = np.sort(np.argsort(row_scores(self, squares, prior), kind="stable")[: n - f]) if n > 2 else np.arange(n)
        farthest = float(squares[np.ix_(kept, kept)].max())
        first: Weights = np.full(len(kept), 1 / len(kept))
        cap: float | Weights = 1 / ((1 - self.tolerated_share(n)) * len(kept))
        if prior is not None:
            first = prior[kept] / prior[kept].sum()
            cap = first / (1 - self.tolerated_weight(prior) / float(prior.sum()))
        best, variance, steps, stopped = self._iterate(gram[np.ix_(kept, kept)], first, 2 * f, farthest, cap)
        weights = np.zeros(n)
        weights[kept] = best
        return RowWeights(weights, variance, steps, stopped)

    def _iterate(
        self, gram: npt.NDArray[np.float64], weights: Weights, steps: int, farthest: float, cap: float | Weights
    ) -> tuple[Weights, float, int, str]:
        best, smallest = weights, np.inf
        for step in range(steps + 1):
            spread = widest(gram, weights)
            if spread.eigenvalue < smallest:
                best, smallest = weights, spread.eigenvalue
            if spread.eigenvalue == 0:
                return weights, 0.0, step, "the remaining rows agree"
            if self.sigma is not None and spread.eigenvalue <= self.eta * self.sigma**2:
                return weights, spread.eigenvalue, step, "the largest variance is small enough"
            weights = _cap(weights * (1 - spread.scores / (2 * farthest)), cap)
        return best, float(smallest), steps, "all 2f steps are done"


def _cap(weights: Weights, cap: float | Weights) -> Weights:
    """Return the distribution nearest in relative entropy with no entry above the cap, or above its own."""
    weights = weights / weights.sum()
    if not isinstance(cap, float):
        return _cap_each(weights, cap)
    ordered = np.sort(weights)[::-1]
    for capped in range(len(weights)):
        factor = (1 - capped * cap) / ordered[capped:].sum()
        if ordered[capped] * factor <= cap * (1 + 1e-12):
            return np.asarray(np.minimum(weights * factor, cap))
    return np.full(len(weights), 1 / len(weights))


def _cap_each(weights: Weights, caps: Weights) -> Weights:
    """Cap every entry at its own cap: those with the largest ratio to it reach it first."""
    order = np.argsort(-weights / caps, kind="stable")
    for capped in range(len(weights)):
        over, rest = order[:capped], order[capped:]
        factor = (1 - caps[over].sum()) / weights[rest].sum()
        if weights[order[capped]] * factor <= caps[order[capped]] * (1 + 1e-12):
            return np.asarray(np.minimum(weights * factor, caps))
    return np.asarray(caps / caps.sum())
