"""Krum and Multi-Krum (Blanchard et al., NeurIPS 2017)."""

from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError
from f2ed.estimators._linalg.gram import squared_distances
from f2ed.estimators.base import Fraction, Weights, within
from f2ed.estimators.gram_rule import GramRule, RowWeights, uniform

__all__ = ["Krum", "MultiKrum", "feared_by_krum", "krum_scores"]


class Krum(GramRule, frozen=True, tag="krum"):
    """Answer the one row whose nearest n - f - 2 others are nearest to it, in squared distance."""

    title = "Krum"
    family = "distance-based"
    paper = "Blanchard et al., NeurIPS 2017"

    contamination: Fraction

    def weigh(self, gram: npt.NDArray[np.float64]) -> RowWeights:
        """Give all weight to the row with the smallest score; on a tie, to the first."""
        scores = krum_scores(squared_distances(gram), feared_by_krum("Krum", self.contamination, len(gram)))
        return RowWeights(uniform([int(np.argmin(scores))], len(gram)))


class MultiKrum(GramRule, frozen=True, tag="multi-krum"):
    """Average the `keep` rows with the smallest Krum scores; by default all but f."""

    title = "Multi-Krum"
    family = "distance-based"
    paper = "Blanchard et al., NeurIPS 2017"

    contamination: Fraction
    keep: Annotated[int, msgspec.Meta(ge=1)] | None = None

    def weigh(self, gram: npt.NDArray[np.float64]) -> RowWeights:
        """Give the same weight to the rows with the smallest scores."""
        n = len(gram)
        feared = feared_by_krum("Multi-Krum", self.contamination, n)
        keep = self.keep or n - feared
        if keep > n:
            raise ConfigError(f"Multi-Krum cannot keep {keep} of {n} rows; keep at most {n - feared}")
        order = np.argsort(krum_scores(squared_distances(gram), feared), kind="stable")
        return RowWeights(uniform(order[:keep], n))


def krum_scores(squares: npt.NDArray[np.float64], feared: int) -> Weights:
    """Return the sum of the n - feared - 2 smallest squared distances of each row to another."""
    nearest = np.sort(squares, axis=1)[:, 1 : max(len(squares) - feared - 1, 2)]
    return np.asarray(nearest.sum(axis=1))


def feared_by_krum(rule: str, contamination: float, n: int) -> int:
    """Return f = floor(contamination n), if Krum can withstand so many."""
    return within(rule, contamination, n, (n - 3) // 2, "n >= 2f + 3")
