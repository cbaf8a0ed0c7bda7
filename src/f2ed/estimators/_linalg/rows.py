"""Rows of updates, as they are or selected, scaled or mixed, read in blocks of columns.

Every estimator works on `Rows`. Wrappers such as nearest-neighbor mixing make no second matrix: they return rows that
are a linear map of the underlying ones, applied block by block.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from f2ed.core.arrays import LANES, Array, double, in_lanes, like, namespace, one_blas_thread, to_numpy
from f2ed.estimators._linalg import gram
from f2ed.estimators._linalg.gram import HUGE, NotFiniteError, largest

__all__ = ["Matrix", "Rows"]

Vector = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]
_BLOCK = 400_000  # elements of a block: about what fits in a core's own cache
_GPU_BLOCK = 1 << 27
_NARROWEST, _WIDEST = 512, 16_384  # columns of a block on a CPU
_WIDE = 1 << 16  # of one that is read once and in order, so it need not fit the cache


class Rows(ABC):
    """n rows of d columns; `matrix` is the underlying matrix, for its width, type and device."""

    n: int
    matrix: Array
    previous: Array | None
    root: Array | None
    reputation: Vector | None
    tensors: Sequence[int] | None
    rng: np.random.Generator
    separate: bool = True
    """Whether every row is one of those given, whole, as opposed to a mixture of several or a section of one."""
    prior: Vector | None
    """The weight that each row counts with, [n]; None where all count the same."""

    @abstractmethod
    def block(self, columns: slice) -> Array:
        """Return these columns of all rows, [n, width], read-only."""

    @abstractmethod
    def section(self, columns: slice | Index) -> "Rows":
        """Return all rows, restricted to some of their columns."""

    @property
    def d(self) -> int:
        """The number of columns."""
        return int(self.matrix.shape[1])

    @cached_property
    def gram(self) -> Vector:
        """The Gram matrix about a common center, [n, n]; the first use costs one pass."""
        with one_blas_thread():
            return gram.measured(self)

    @cached_property
    def squares(self) -> Vector:
        """The squared distances of all pairs of rows, [n, n]."""
        return gram.squared_distances(self.gram)

    # Passes over the columns

    def walk(
        self, work: Callable[[Iterator[slice]], Any], *, blas: bool = False, width: int | None = None
    ) -> list[Any]:
        """Call `work` with the columns in blocks that fit a core's cache, or on a CPU in blocks of `width`."""
        if not isinstance(self.matrix, np.ndarray):
            width = max(_GPU_BLOCK // self.n >> 16, 1) << 16
        elif width is None:
            width = int(np.clip(_BLOCK // self.n, _NARROWEST, _WIDEST))
        return in_lanes(work, self.matrix, width, blas=blas)

    def combine(self, weights: Vector) -> Array:
        """Return the weighted sum of the rows, [d]: one pass."""
        return self.fill(lambda block: like(block, weights) @ block, blas=True)

    def fill(self, rule: Callable[[Array], Array], *, blas: bool = False, width: int | None = None) -> Array:
        """Return the vector [d] whose blocks are `rule(block)`."""
        xp = namespace(self.matrix)
        out = xp.empty(self.d, dtype=self.matrix.dtype, device=self.matrix.device)

        def work(blocks: Iterator[slice]) -> None:
            for columns in blocks:
                out[columns] = rule(self.block(columns))

        self.walk(work, blas=blas, width=width)
        if not bool(xp.isfinite(out).all()):
            raise NotFiniteError
        return out

    def distances(self, center: Callable[[slice], Array] | None) -> Vector:
        """Return the squared distance of each row from a vector, block by block, or from zero: one direct pass."""
        squares = self._distances(center, precise=False)
        if np.isfinite(squares).all() and squares.max() > 1e8 * self.d * np.finfo(np.float32).tiny:
            return squares
        squares = self._distances(center, precise=True)
        if not np.isfinite(squares).all():
            raise NotFiniteError
        return squares

    def _distances(self, center: Callable[[slice], Array] | None, *, precise: bool) -> Vector:
        xp = namespace(self.matrix)

        def work(blocks: Iterator[slice]) -> Array:
            total = 0.0
            for columns in blocks:
                away = self.block(columns) if center is None else self.block(columns) - center(columns)
                away = double(away) if precise else away
                total = total + double(xp.einsum("ij,ij->i", away, away))
            return total

        return np.asarray(sum(to_numpy(part) for part in self.walk(work)))

    def not_finite(self) -> Index:
        """Return the rows that hold NaN or Inf, or values whose squares overflow float64."""

        def work(blocks: Iterator[slice]) -> Vector:
            return np.asarray(np.max([largest(self.block(columns)) for columns in blocks], axis=0))

        return np.flatnonzero(~(np.max(self.walk(work), axis=0) < HUGE))

    # Derived rows

    def select(self, index: Index) -> "Rows":
        """Return only the selected rows."""
        return _Selected(self, index)

    def mix(self, weights: Vector, prior: Vector | None = None) -> "Rows":
        """Return the rows `weights @ self`; each row of the weights must sum to one, and counts with its prior."""
        return _Mixed(self, weights, prior)

    def scale(self, factors: Vector) -> "Rows":
        """Return each row times its own factor."""
        return _Scaled(self, factors)


class Matrix(Rows):
    """The rows as given."""

    def __init__(
        self,
        matrix: Array,
        *,
        previous: Array | None = None,
        root: Array | None = None,
        reputation: Vector | None = None,
        tensors: Sequence[int] | None = None,
        rng: np.random.Generator | None = None,
        prior: Vector | None = None,
        separate: bool = True,
    ) -> None:
        self.n, self.matrix, self.previous, self.tensors = int(matrix.shape[0]), matrix, previous, tensors
        self.root, self.reputation, self.prior, self.separate = root, reputation, prior, separate
        self.rng = rng or np.random.default_rng(0)

    def block(self, columns: slice) -> Array:
        """Return a view."""
        return self.matrix[:, columns]

    def section(self, columns: slice | Index) -> Rows:
        """Restrict the previous estimate and the root update too."""
        previous, root = (None if each is None else each[columns] for each in (self.previous, self.root))
        return Matrix(
            self.matrix[:, columns], previous=previous, root=root, rng=self.rng, prior=self.prior, separate=False
        )

    def combine(self, weights: Vector) -> Array:
        """Return the weighted sum, or a copy of the row that has all the weight."""
        used = np.flatnonzero(weights)
        if len(used) == 1 and weights[used[0]] == 1:
            row = self.matrix[int(used[0])]
            return row.copy() if isinstance(row, np.ndarray) else row.clone()
        width = min(-(-self.d // LANES), _WIDE)
        return self.fill(lambda block: like(block, weights) @ block, blas=True, width=width)


class _Derived(Rows):
    def __init__(self, source: Rows, n: int) -> None:
        self.n, self.source, self.matrix = n, source, source.matrix
        self.previous, self.tensors, self.rng = source.previous, source.tensors, source.rng
        self.root, self.reputation, self.separate = source.root, source.reputation, source.separate
        self.prior = source.prior


class _Selected(_Derived):
    def __init__(self, source: Rows, index: Index) -> None:
        super().__init__(source, len(index))
        self.index = index
        self.reputation = None if source.reputation is None else source.reputation[index]
        self.prior = None if source.prior is None else source.prior[index]

    def block(self, columns: slice) -> Array:
        return self.source.block(columns)[self.index]

    def section(self, columns: slice | Index) -> Rows:
        return self.source.section(columns).select(self.index)


class _Mixed(_Derived):
    def __init__(self, source: Rows, weights: Vector, prior: Vector | None) -> None:
        super().__init__(source, len(weights))
        self.weights, self.reputation, self.separate = weights, None, False
        self.prior = prior

    def block(self, columns: slice) -> Array:
        block = self.source.block(columns)
        return like(block, self.weights) @ block

    def section(self, columns: slice | Index) -> Rows:
        return self.source.section(columns).mix(self.weights, self.prior)

    @cached_property
    def gram(self) -> Vector:
        """Mixing commutes with centering, so no pass is needed."""
        return np.asarray(self.weights @ self.source.gram @ self.weights.T)

    def combine(self, weights: Vector) -> Array:
        return self.source.combine(weights @ self.weights)


class _Scaled(_Derived):
    def __init__(self, source: Rows, factors: Vector) -> None:
        super().__init__(source, source.n)
        self.factors = factors

    def block(self, columns: slice) -> Array:
        block = self.source.block(columns)
        return block * like(block, self.factors)[:, None]

    def section(self, columns: slice | Index) -> Rows:
        return self.source.section(columns).scale(self.factors)

    def combine(self, weights: Vector) -> Array:
        return self.source.combine(weights * self.factors)
