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

__all__ = ["Krum", "MultiKrum", "krum_scores"]


class Krum(GramRule, BoundedEstimator, frozen=True, tag="krum"):
    """Return the row with the smallest sum of squared distances to its n - f - 2 nearest neighbors."""

    title = "Krum"
    family = "distance-based"
    paper = "Blanchard et al., NeurIPS 2017"
    needs = "n >= 2f + 3"

    def weigh(self, gram: npt.NDArray[np.float64]) -> RowWeights:
        """Give all weight to the row with the smallest score; on a tie, to the first."""
        scores = krum_scores(squared_distances(gram), self.tolerated(len(gram)))
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

    keep: Annotated[int, msgspec.Meta(ge=1)] | None = None

    def weigh(self, gram: npt.NDArray[np.float64]) -> RowWeights:
        """Give the same weight to the rows with the smallest scores."""
        n = len(gram)
        f = self.tolerated(n)
        keep = self.keep or n - f
        if keep > n:
            raise ConfigError(f"Multi-Krum cannot keep {keep} of {n} rows; keep at most {n - f}")
        order = np.argsort(krum_scores(squared_distances(gram), f), kind="stable")
        return RowWeights(uniform(order[:keep], n))

    def max_f(self, n: int) -> int:
        """Solve n >= 2f + 3."""
        return (n - 3) // 2


def krum_scores(squares: npt.NDArray[np.float64], f: int) -> Weights:
    """Return, for each row, the sum of its n - f - 2 smallest squared distances to other rows (at least one)."""
    nearest = np.sort(squares, axis=1)[:, 1 : max(len(squares) - f - 1, 2)]
    return np.asarray(nearest.sum(axis=1))
