"""The Gram matrix of n rows in one pass, precise enough to distinguish close rows.

Products are computed in the rows' own type and summed in float64. Where rounding would blur the differences among the
nearest half of the rows, because of a large common mean or one far row, the pass is repeated about the medoid; where
values are so large or small that squares leave the range of the type, with every row scaled to size one as well.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from f2ed.core.arrays import Array, double, like, namespace, one_blas_thread, to_numpy
from f2ed.core.errors import ConfigError

__all__ = [
    "HUGE",
    "GramStream",
    "NotFiniteError",
    "largest",
    "measured",
    "product",
    "squared_distances",
]

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
HUGE = 1e150  # beyond this, squares overflow float64
_REPEATS = 4
_BLUR = 1e-4  # of the spread of the nearest half, squared
_NARROW = 2048


class NotFiniteError(Exception):
    """Some row holds NaN or Inf, or overflows; from the sums it is not known which."""


class Source(Protocol):
    """The interface that the pass needs from its rows."""

    n: int
    matrix: Array

    def block(self, columns: slice) -> Array: ...
    def walk(self, work: Callable[[Iterator[slice]], Any], *, blas: bool = False) -> list[Any]: ...


def measured(rows: Source) -> Matrix:
    """Return the Gram matrix of the rows about a common center, [n, n] in float64.

    The center is zero, or the medoid where needed: rules must use distances or re-center, never the norms of the rows.
    """
    result, center = _one_pass(rows, None, scaled=False), None
    for _ in range(_REPEATS):
        again = _blurred(result, rows, center)
        if again is None:
            break
        center, scaled = again
        result = _one_pass(rows, center, scaled=scaled)
    return result


class GramStream:
    """A Gram matrix built up from blocks of columns that arrive one after another.

    For matrices that do not fit in memory: add every block, then `FilterL2(…).weigh(stream.gram)` gives the weights of
    the rows, and `weights @ block` the mean, block by block, in a second pass.
    """

    def __init__(self, n: int) -> None:
        if n < 1:
            raise ConfigError(f"a Gram matrix of {n} rows; at least 1 is needed")
        self.gram: Matrix = np.zeros((n, n))

    def add(self, block: Array) -> None:
        """Add a block [n, width] of columns, of any width."""
        n = len(self.gram)
        if block.ndim != 2 or block.shape[0] != n:
            raise ConfigError(f"a block must be a matrix of {n} rows, not {tuple(block.shape)}")
        with one_blas_thread():
            product = to_numpy(_product(block, 0, None))
        if not np.isfinite(product.trace()):
            raise ConfigError("the block holds NaN, Inf or numbers whose squares overflow; leave those rows out")
        self.gram += product


def squared_distances(gram: Matrix) -> Matrix:
    """Return all pairwise squared distances, [n, n], with a zero diagonal."""
    lengths = gram.diagonal()
    squares = np.maximum(lengths[:, None] + lengths - 2 * gram, 0)
    np.fill_diagonal(squares, 0)
    return squares


def largest(block: Array) -> Vector:
    """Return the largest magnitude in each row of a block; NaN where there is a NaN."""
    xp = namespace(block)
    return np.asarray(to_numpy(xp.abs(block).max(1) if xp is np else xp.abs(block).amax(1)), np.float64)


def _one_pass(rows: Source, center: int | None, *, scaled: bool) -> Matrix:
    """Read the columns once; twice if every row is scaled to size one, against over- and underflow."""
    factors = np.exp2(-np.clip(np.floor(np.log2(_sizes(rows, center))), -126, 126)) if scaled else None

    def work(blocks: Iterator[slice]) -> Array:
        return sum(_product(rows.block(columns), center, factors) for columns in blocks)

    result = np.asarray(sum(to_numpy(part) for part in rows.walk(work, blas=True)))
    return result if factors is None else result / (factors[:, None] * factors)


def _sizes(rows: Source, center: int | None) -> Vector:
    """Return the largest magnitude of each row about the center; one for a row that is the center."""

    def work(blocks: Iterator[slice]) -> Vector:
        sizes = np.zeros(rows.n)
        for columns in blocks:
            sizes = np.maximum(sizes, largest(_away(rows.block(columns), center)))
        return sizes

    sizes = np.max(rows.walk(work), axis=0)
    return np.where(sizes == 0, 1.0, sizes)


def _away(block: Array, center: int | None) -> Array:
    return block if center is None else block - block[center]


def _product(block: Array, center: int | None, factors: Vector | None) -> Array:
    """Return the Gram matrix of one block about one of its rows, or about zero, in float64."""
    away = _away(block, center)
    if factors is not None:
        away = away * like(block, factors)[:, None]
    if isinstance(away, np.ndarray):
        return double(away @ away.T)
    # One product with such a small result leaves most of a GPU idle: many narrow ones fill it.
    narrow = _NARROW if away.shape[1] % _NARROW == 0 else away.shape[1]
    parts = away.unflatten(1, (-1, narrow)).transpose(0, 1)
    return double(parts @ parts.mT).sum(0)


def product(block: Array) -> Array:
    """Return the Gram matrix of one block about zero, in float64."""
    return _product(block, None, None)


def _blurred(gram: Matrix, rows: Source, center: int | None) -> tuple[int, bool] | None:
    """Return the row to center on, and whether to scale, if rounding blurs the nearest half; else None."""
    lengths, half = gram.diagonal(), rows.n // 2 + 1
    if not np.isfinite(lengths).all():
        sizes = _sizes(rows, None)
        if center is not None or not (sizes < HUGE).all():
            raise NotFiniteError
        return int(np.argsort(sizes, kind="stable")[rows.n // 2]), True
    squares = squared_distances(gram)
    medoid = int(np.argmin(np.sort(squares, axis=1)[:, :half].sum(axis=1)))
    if medoid == center:
        return None
    order = np.argsort(squares[medoid], kind="stable")[:half]
    spread = float(squares[medoid][order[half // 2]])
    kind = np.finfo(str(rows.matrix.dtype).removeprefix("torch."))
    rounding = 8 * float(kind.eps) * float(lengths[order].max())
    small = 1e8 * float(kind.tiny) * rows.matrix.shape[1]
    if rounding <= _BLUR * spread and (spread >= small or center is not None):
        return None
    return medoid, spread < small or float(lengths.max()) > 1e-8 * float(kind.max)
