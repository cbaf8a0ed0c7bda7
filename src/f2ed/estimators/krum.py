"""Krum and Multi-Krum (Blanchard et al., NeurIPS 2017)."""

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError
from f2ed.estimators._linalg.gram import squared_distances
from f2ed.estimators.base import Weights
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.gram_rule import GramRule, RowWeights, uniform

__all__ = ["Krum", "MultiKrum", "krum_scores", "nearest_weights", "row_scores"]


class Krum(GramRule, BoundedEstimator, frozen=True, tag="krum"):
    """Return the row with the smallest sum of squared distances to its n - f - 2 nearest neighbors."""

    title = "Krum"
    family = "distance-based"
    paper = "Blanchard et al., NeurIPS 2017"
    needs = "n >= 2f + 3"
    weighted = True

    def weigh(self, gram: npt.NDArray[np.float64], prior: Weights | None = None) -> RowWeights:
        """Give all weight to the row with the smallest score; on a tie, to the first."""
        scores = row_scores(self, squared_distances(gram), prior)
        return RowWeights(uniform([int(np.argmin(scores))], len(gram)))

    def max_f(self, n: int) -> int:
        """Solve n >= 2f + 3."""
        return (n - 3) // 2


class MultiKrum(GramRule, BoundedEstimator, frozen=True, tag="multi-krum"):
    """Average the `keep` rows with the smallest Krum scores; by default all but f."""

    title = "Multi-Krum"
    family = "distance-based"
    paper = "Blanchard et al., NeurIPS 2017"
    needs = "n >= 2f + 3"
    weighted = True

    keep: Annotated[int, msgspec.Meta(ge=1)] | None = None

    def weigh(self, gram: npt.NDArray[np.float64], prior: Weights | None = None) -> RowWeights:
        """Give the same weight, or their own, to the rows with the smallest scores."""
        n = len(gram)
        f = self.tolerated(n)
        keep = self.keep or n - f
        if keep > n:
            raise ConfigError(f"Multi-Krum cannot keep {keep} of {n} rows; keep at most {n - f}")
        order = np.argsort(row_scores(self, squared_distances(gram), prior), kind="stable")
        return RowWeights(uniform(order[:keep], n, prior))

    def max_f(self, n: int) -> int:
        """Solve n >= 2f + 3."""
        return (n - 3) // 2


def row_scores(rule: BoundedEstimator, squares: npt.NDArray[np.float64], prior: Weights | None) -> Weights:
    """Return the Krum scores of rows that may count with different weights.

    Counting a row itself, which adds nothing, Krum sums over n - f - 1 rows. With weights it sums over as many of the
    nearest as have all the weight but that of the f heaviest rows and of one row on average, the last one in part.
    """
    if prior is None:
        return krum_scores(squares, rule.tolerated(len(squares)))
    one = prior.sum() / len(prior)
    total = np.maximum(prior.sum() - rule.tolerated_weight(prior) - one, prior + one)
    taken = nearest_weights(squares, prior, total)
    return np.asarray((taken * squares).sum(axis=1))


def nearest_weights(
    squares: npt.NDArray[np.float64], prior: Weights, total: Weights | float
) -> npt.NDArray[np.float64]:
    """Return how much of each row's weight [n, n] is among the nearest to each row, up to a total; the last in part."""
    order = np.argsort(squares, axis=1, kind="stable")
    sorted_weights = prior[order]
    before = sorted_weights.cumsum(axis=1) - sorted_weights
    left = np.broadcast_to(np.asarray(total, np.float64), len(prior))[:, None] - before
    taken = np.zeros_like(squares)
    np.put_along_axis(taken, order, np.clip(left, 0, sorted_weights), axis=1)
    return taken


def krum_scores(squares: npt.NDArray[np.float64], f: int) -> Weights:
    """Return, for each row, the sum of its n - f - 2 smallest squared distances to other rows (at least one)."""
    nearest = np.sort(squares, axis=1)[:, 1 : max(len(squares) - f - 1, 2)]
    return np.asarray(nearest.sum(axis=1))
