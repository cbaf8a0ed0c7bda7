"""Minimum-diameter averaging (MDA, El Mhamdi et al. 2018; Rousseeuw 1985)."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from f2ed.estimators._linalg.gram import squared_distances
from f2ed.estimators.base import Weights
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.gram_rule import GramRule, RowWeights, uniform

__all__ = ["MDA"]

Matrix = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.bool_]


class MDA(GramRule, BoundedEstimator, frozen=True, tag="mda"):
    """Average the n - f rows with the smallest diameter; of several such sets, the one with the smallest distances.

    Exact without trying all subsets: leaving out f rows reduces the diameter to δ if and only if they cover every pair
    farther apart than δ, and a cover of f rows is found in at most 2^f steps.
    """

    title = "MDA"
    family = "distance-based"
    paper = "El Mhamdi et al., ICML 2018; Rousseeuw, 1985"
    weighted = True

    def weigh(self, gram: Matrix, prior: Weights | None = None) -> RowWeights:
        """Search the smallest diameter by bisection over the distances that occur."""
        n, squares = len(gram), squared_distances(gram)
        drop = self.tolerated(n)
        candidates = np.unique(squares)
        low, high = 0, len(candidates) - 1
        while low < high:
            middle = (low + high) // 2
            if next(_covers(squares > candidates[middle], drop), None) is None:
                low = middle + 1
            else:
                high = middle
        covers = _covers(squares > candidates[low], drop)
        kept = min((_complete(squares, cover, drop) for cover in covers), key=lambda rows: _total(squares, rows))
        return RowWeights(uniform(kept, n, prior))


def _covers(far: Pairs, max_rows: int) -> Iterator[tuple[int, ...]]:
    """Yield sets of at most `max_rows` rows that touch every far pair."""
    degrees = far.sum(axis=1)
    busiest = int(degrees.argmax())
    if degrees[busiest] == 0:
        yield ()
        return
    # No choice of rows can touch more pairs than this.
    if degrees.sum() > 2 * max_rows * degrees[busiest]:
        return
    without = _isolate(far, [busiest])
    for rest in _covers(without, max_rows - 1):
        yield (busiest, *rest)
    # Or leave out all rows far from it.
    neighbors = np.flatnonzero(far[busiest])
    if len(neighbors) <= max_rows:
        for rest in _covers(_isolate(far, neighbors), max_rows - len(neighbors)):
            yield (*map(int, neighbors), *rest)


def _isolate(far: Pairs, rows: npt.NDArray[np.intp] | list[int]) -> Pairs:
    left = far.copy()
    left[rows] = False
    left[:, rows] = False
    return left


def _complete(squares: Matrix, cover: tuple[int, ...], drop: int) -> npt.NDArray[np.intp]:
    """Leave out the cover, then the row farthest from the rest, until `drop` rows are left out."""
    left = np.setdiff1d(np.arange(len(squares)), cover)
    while len(left) > len(squares) - drop:
        left = np.delete(left, int(squares[np.ix_(left, left)].sum(axis=1).argmax()))
    return left


def _total(squares: Matrix, rows: npt.NDArray[np.intp]) -> float:
    return float(squares[np.ix_(rows, rows)].sum())
