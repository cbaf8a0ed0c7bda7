"""FilterL2 (Steinhardt 2018; Algorithm 2 of Wang et al. 2021), exact in any dimension.

Without `sigma` it is also the covariance-agnostic filter CAF (Allouah et al., ICML 2025).
"""

from typing import Annotated, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.estimators._linalg.spectrum import widest
from f2ed.estimators.base import Weights
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.gram_rule import GramRule, RowWeights

__all__ = ["FilterL2"]

Positive = Annotated[float, msgspec.Meta(gt=0.0)]


class FilterL2(GramRule, BoundedEstimator, frozen=True, tag="filter-l2"):
    """Repeatedly take weight from the outliers along the direction of largest variance.

    By default it needs no scale: it runs the filter until a total weight of 2f is removed, and returns the iterate
    whose largest variance is smallest. With `sigma`, a bound on the honest standard deviation in every direction, it
    stops as soon as the variance is at most eta sigma², as in the paper; `variant = "released"` compares the *square*
    of the variance with eta sigma², as the released code does. The exact eigenpair comes from the n by n Gram matrix,
    so the vector need not be split into sections.
    """

    title = "FilterL2"
    family = "spectral"
    paper = "Steinhardt, 2018; Wang et al., 2021"
    weighted = True

    sigma: Positive | None = None
    eta: Positive = 20.0
    variant: Literal["paper", "released"] = "paper"

    def weigh(self, gram: npt.NDArray[np.float64], prior: Weights | None = None) -> RowWeights:
        """Run the filter from equal weights, or from those that the rows count with."""
        f = self.tolerated(len(gram))
        if self.sigma is not None:
            return self._below(gram, np.ones(len(gram)) if prior is None else prior, f, self.sigma)
        if prior is None:
            return self._min_variance(gram, np.ones(len(gram)), f)
        return self._min_variance(gram, prior, self.tolerated_weight(prior))

    def _min_variance(self, gram: npt.NDArray[np.float64], prior: Weights, f: float) -> RowWeights:
        weights, left = prior, max(prior.sum() - 2 * f, 0)
        best, smallest, steps, stopped = weights, np.inf, 0, "nothing to remove"
        while weights.sum() > left or steps == 0:
            spread = widest(gram, weights)
            if spread.eigenvalue < smallest:
                best, smallest = weights, spread.eigenvalue
            if spread.eigenvalue == 0:
                stopped = "the remaining rows agree"
                break
            if f:
                stopped = "a weight of 2f is removed"
            weights = _lighten(weights, spread.scores, weights > 0)
            steps += 1
        return RowWeights(best / best.sum(), float(smallest), steps, stopped)

    def _below(self, gram: npt.NDArray[np.float64], prior: Weights, f: int, sigma: float) -> RowWeights:
        weights, left = prior, np.full(len(gram), fill_value=True)
        released, bound = self.variant == "released", self.eta * sigma**2
        for steps in range(2 * f + 1):
            spread = widest(gram, weights)
            reached = spread.eigenvalue**2 if released else spread.eigenvalue
            lighter = _lighten(weights, spread.scores, left)
            if reached <= bound or spread.eigenvalue == 0:
                stopped = "the largest variance is small enough"
            elif steps == 2 * f:
                stopped = "2f rows are removed"
            elif not lighter.any():
                stopped = "the remaining rows deviate equally"
            else:
                weights = lighter
                # The released code removes one row per step: a row with the same score stays and may be removed next.
                left = (
                    left & (np.arange(len(left)) != np.where(left, spread.scores, -1).argmax())
                    if released
                    else weights > 0
                )
                continue
            break
        return RowWeights(weights / weights.sum(), spread.eigenvalue, steps, stopped)


def _lighten(weights: Weights, scores: npt.NDArray[np.float64], left: npt.NDArray[np.bool_]) -> Weights:
    """Reduce weights in proportion to the scores; of the remaining rows, the one with the largest score gets zero.

    So do rows whose score equals it up to rounding, which would otherwise keep a tiny weight.
    """
    most = scores[left].max()
    if not most > 0:
        return weights
    share = 1 - scores / most
    return np.where(share < 1e-12, 0, weights * share)
