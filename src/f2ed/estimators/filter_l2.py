"""FilterL2 (Steinhardt 2018; Algorithm 2 of Wang et al. 2021), exact in any dimension.

Without `sigma` it is also the covariance-agnostic filter CAF (Allouah et al., ICML 2025).
"""

from typing import Annotated, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.estimators._linalg.spectrum import widest
from f2ed.estimators.base import Fraction, Weights, withstood
from f2ed.estimators.gram_rule import GramRule, RowWeights

__all__ = ["FilterL2"]

Positive = Annotated[float, msgspec.Meta(gt=0.0)]


class FilterL2(GramRule, frozen=True, tag="filter-l2"):
    """Take weight, again and again, from the rows that stick out along the direction of largest variance.

    By default it needs no scale: it follows the filter until twice the feared mass is gone, and
    answers the iterate with the smallest largest variance. With `sigma`, a bound on the honest
    standard deviation in every direction, it stops as soon as the variance is at most eta sigma², as
    in the paper; `variant = "released"` compares the *square* of the variance with eta sigma², as the
    released code does. The exact eigenpair comes from the n by n Gram matrix: there is nothing to
    cut into sections.
    """

    title = "FilterL2"
    family = "spectral"
    paper = "Steinhardt, 2018; Wang et al., 2021"

    contamination: Fraction
    sigma: Positive | None = None
    eta: Positive = 20.0
    variant: Literal["paper", "released"] = "paper"

    def weigh(self, gram: npt.NDArray[np.float64]) -> RowWeights:
        """Follow the filter from equal weights."""
        feared = withstood(self.contamination, len(gram))
        return self._least_variance(gram, feared) if self.sigma is None else self._below(gram, feared, self.sigma)

    def _least_variance(self, gram: npt.NDArray[np.float64], feared: int) -> RowWeights:
        weights = np.ones(len(gram))
        best, least, steps, stopped = weights, np.inf, 0, "nothing to remove"
        while weights.sum() > max(len(gram) - 2 * feared, 0) or steps == 0:
            spread = widest(gram, weights)
            if spread.eigenvalue < least:
                best, least = weights, spread.eigenvalue
            if spread.eigenvalue == 0:
                stopped = "the rows left agree"
                break
            if feared:
                stopped = "twice the feared mass is gone"
            weights = _lighten(weights, spread.scores, weights > 0)
            steps += 1
        return RowWeights(best / best.sum(), float(least), steps, stopped)

    def _below(self, gram: npt.NDArray[np.float64], feared: int, sigma: float) -> RowWeights:
        weights, left = np.ones(len(gram)), np.full(len(gram), fill_value=True)
        authors, bound = self.variant == "released", self.eta * sigma**2
        for steps in range(2 * feared + 1):
            spread = widest(gram, weights)
            reached = spread.eigenvalue**2 if authors else spread.eigenvalue
            lighter = _lighten(weights, spread.scores, left)
            if reached <= bound or spread.eigenvalue == 0:
                stopped = "the largest variance is small enough"
            elif steps == 2 * feared:
                stopped = "2 floor(contamination n) rows are removed"
            elif not lighter.any():
                stopped = "the rows left stick out alike"
            else:
                weights = lighter
                # The authors take out one row a step: its twin, as light by now, is still there to be the next.
                left = (
                    left & (np.arange(len(left)) != np.where(left, spread.scores, -1).argmax())
                    if authors
                    else weights > 0
                )
                continue
            break
        return RowWeights(weights / weights.sum(), spread.eigenvalue, steps, stopped)


def _lighten(weights: Weights, scores: npt.NDArray[np.float64], left: npt.NDArray[np.bool_]) -> Weights:
    """Take weight in proportion to the score; of the rows left, the one that sticks out most loses all of it.

    So do rows that stick out as much but for rounding: a crumb of weight would keep them in the game.
    """
    most = scores[left].max()
    if not most > 0:
        return weights
    share = 1 - scores / most
    return np.where(share < 1e-12, 0, weights * share)
