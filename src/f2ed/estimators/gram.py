"""The centred Gram matrix of n rows in one pass, exact enough to tell near rows apart.

Products are taken in the rows' own type and added up in float64. The columns are centred first: without
that, rows with a large common mean would lose their differences in rounding. One far row drags
the centre away and does the same harm; then the pass is repeated around the nearest half, with
every row scaled to size one.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from f2ed.arrays import Array, namespace
from f2ed.errors import ConfigError

__all__ = ["HUGE", "GramStream", "NotFiniteError", "centred", "largest", "like", "squared_distances", "to_numpy"]

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
HUGE = 1e150  # beyond this, squares overflow float64
_REPEATS = 4


class NotFiniteError(Exception):
    """Some row holds NaN or Inf, or overflows; the sums are spoilt, so it cannot say which."""


class Source(Protocol):
    """What the pass needs of its rows."""

    n: int
    matrix: Array

    def block(self, columns: slice) -> Array: ...
    def walk(self, work: Callable[[Iterator[slice]], Any], *, blas: bool = False) -> list[Any]: ...


def centred(rows: Source) -> Matrix:
    """Return the Gram matrix of the rows about a common centre, [n, n] in float64.

    The centre is the mean, or the medoid where one far row would blur the rest: rules must use
    distances or re-centre, never the rows' own lengths.
    """
    result = _one_pass(rows, np.full(rows.n, 1 / rows.n))
    centre = None
    for _ in range(_REPEATS):
        medoid = _blurred(result, rows, scaled=centre is not None)
        if medoid is None or medoid == centre:
            break
        centre = medoid
        result = _one_pass(rows, np.eye(rows.n)[medoid], scaled=True)
    return result


class GramStream:
    """A Gram matrix built up from blocks of columns that arrive one after another.

    For matrices that never fit in memory: add every block, then `FilterL2(…).weigh(stream.gram)` gives
    the weights of the rows, and `weights @ block` the mean, block by block, on a second reading.
    """

    def __init__(self, n: int) -> None:
        self.gram: Matrix = np.zeros((n, n))

    def add(self, block: Array) -> None:
        """Add a block [n, width] of columns; any width will do."""
        n = len(self.gram)
        if block.ndim != 2 or block.shape[0] != n:
            raise ConfigError(f"a block must be a matrix of {n} rows, not {tuple(block.shape)}")
        product = to_numpy(_product(block, np.full(n, 1 / n), None))
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


def to_numpy(array: Array) -> Any:
    """Bring a small result to the CPU."""
    return array if isinstance(array, (np.ndarray, np.generic, float)) else array.cpu().numpy()


def _one_pass(rows: Source, weights: Vector, *, scaled: bool = False) -> Matrix:
    """Walk the columns once; twice if every row is to be scaled to size one, against over- and underflow."""
    factors = np.exp2(-np.clip(np.floor(np.log2(_sizes(rows, weights))), -126, 126)) if scaled else None

    def work(blocks: Iterator[slice]) -> Array:
        return sum(_product(rows.block(columns), weights, factors) for columns in blocks)

    result = np.asarray(sum(to_numpy(part) for part in rows.walk(work, blas=True)))
    return result if factors is None else result / (factors[:, None] * factors)


def _sizes(rows: Source, weights: Vector) -> Vector:
    """Return the largest magnitude of each row about the weighted mean; one for a row that is the mean."""

    def work(blocks: Iterator[slice]) -> Vector:
        sizes = np.zeros(rows.n)
        for columns in blocks:
            block = rows.block(columns)
            sizes = np.maximum(sizes, largest(block - like(block, weights) @ block))
        return sizes

    sizes = np.max(rows.walk(work), axis=0)
    return np.where(sizes == 0, 1.0, sizes)


def _product(block: Array, weights: Vector, factors: Vector | None) -> Array:
    """Return the Gram matrix of one block about its weighted mean, in float64."""
    away = block - like(block, weights) @ block
    if factors is not None:
        away = away * like(block, factors)[:, None]
    product = away @ away.T
    return product.astype(np.float64) if isinstance(product, np.ndarray) else product.double()


def like(block: Array, small: Vector) -> Array:
    """Bring a small float64 array to a block's type and device."""
    if isinstance(block, np.ndarray):
        return small.astype(block.dtype)
    return namespace(block).as_tensor(small, dtype=block.dtype, device=block.device)


def _blurred(gram: Matrix, rows: Source, *, scaled: bool) -> int | None:
    """Return the row to centre on if rounding blurs the differences among the nearest half, else None."""
    lengths = gram.diagonal()
    if not np.isfinite(lengths).all():
        sizes = _sizes(rows, np.zeros(rows.n))
        if scaled or not (sizes < HUGE).all():
            raise NotFiniteError
        return int(np.argsort(sizes, kind="stable")[rows.n // 2])
    squares = squared_distances(gram)
    half = rows.n // 2 + 1
    medoid = int(np.argmin(np.sort(squares, axis=1)[:, :half].sum(axis=1)))
    near = np.argsort(squares[medoid], kind="stable")[:half]
    spread = float(np.median(np.sort(squares[medoid])[1:half])) if rows.n > 1 else 0.0
    kind = np.finfo(str(rows.matrix.dtype).removeprefix("torch."))
    rounding = 8 * float(kind.eps) * float(lengths[near].max())
    vanishing = 0.0 if scaled else 1e8 * float(kind.tiny) * rows.matrix.shape[1]
    return medoid if rounding > 1e-3 * spread or spread < vanishing else None
