"""The boundary between NumPy and torch, and iteration over blocks of columns.

Rows come in as NumPy arrays or torch tensors. A CPU tensor is viewed as NumPy, whose sorts are many times
faster there; a CUDA tensor stays on its GPU. torch itself is never imported here: a caller with a tensor
has imported it already.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import repeat
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError
from f2ed.core.spill import forget, is_spilled
from f2ed.core.threads import cores

__all__ = ["LANES", "Array", "as_matrix", "double", "in_lanes", "like", "namespace", "one_blas_thread", "to_numpy"]

T = TypeVar("T")
Array = Any  # an ndarray or a torch tensor: whichever came in

# Work is split into this many lanes on every machine, so that sums do not depend on the number of cores.
LANES = 8
_RESIDENT = 1 << 24  # bytes of a file that a lane may have in memory
_WORTH_THREADS = 1 << 22  # elements; below this, starting threads costs more than it saves


def as_matrix(rows: Any) -> tuple[Array, Callable[[Array], Array]]:
    """Check that `rows` is a real [n, d] matrix; return it and the way to convert results to the caller's type."""
    torch = sys.modules.get("torch")
    if isinstance(rows, Sequence) and torch and any(isinstance(row, torch.Tensor) for row in rows):
        rows = _stack(rows, torch)
    if isinstance(rows, Sequence) and any(isinstance(row, Mapping) for row in rows):
        raise ConfigError("the rows are dictionaries; for state dicts call aggregate(updates) of the rule")
    if torch and isinstance(rows, torch.Tensor):
        if rows.layout != torch.strided or rows.is_meta:
            raise ConfigError(
                "updates are a tensor without values in memory (sparse, or on the device meta); make it dense"
            )
        _check(rows.shape, str(rows.dtype).removeprefix("torch."))
        matrix = rows.detach()
        return (matrix, _same) if matrix.is_cuda else (matrix.numpy(), torch.from_numpy)
    try:
        matrix = np.asarray(rows)
    except ValueError as ragged:
        raise ConfigError(f"the rows do not form a matrix ({ragged}); give every row the same length") from ragged
    _check(matrix.shape, str(matrix.dtype))
    return matrix, _same


def _stack(rows: Sequence[Any], torch: ModuleType) -> Any:
    try:
        return torch.stack(list(rows))
    except (RuntimeError, TypeError) as ragged:
        raise ConfigError(
            f"the rows do not form a matrix ({ragged}); give every row the same length, and tensors or arrays alone"
        ) from ragged


def _same(array: Array) -> Array:
    return array


def _check(shape: Sequence[int], dtype: str) -> None:
    if len(shape) != 2 or 0 in shape:
        found = " x ".join(map(str, shape)) or "a single number"
        raise ConfigError(f"updates must be a matrix with at least one row and one column, not {found}")
    if dtype not in {"float32", "float64"}:
        raise ConfigError(f"updates are {dtype}; convert them to float32 or float64 first")


def namespace(array: Array) -> ModuleType:
    """Return the library an array belongs to: numpy or torch."""
    return np if isinstance(array, np.ndarray) else sys.modules["torch"]


def to_numpy(array: Array) -> Any:
    """Copy a small result to the CPU."""
    return array if isinstance(array, (np.ndarray, np.generic, float)) else array.cpu().numpy()


def double(array: Array) -> Array:
    """Convert an array to float64, on its device."""
    return array.astype(np.float64) if isinstance(array, np.ndarray) else array.double()


def like(block: Array, small: npt.NDArray[np.float64]) -> Array:
    """Convert a small float64 array to the type and device of a block."""
    if isinstance(block, np.ndarray):
        return small.astype(block.dtype)
    return namespace(block).as_tensor(small, dtype=block.dtype, device=block.device)


def in_lanes(work: Callable[[Iterator[slice]], T], matrix: Array, width: int, *, blas: bool = False) -> list[T]:
    """Call `work` on lanes of column blocks of `width`; return its results from left to right.

    Columns are split into lanes, and lanes run in threads, so `work` must use its own scratch memory and must not call
    `in_lanes` itself. Set `blas` if it multiplies matrices: unless BLAS is limited to one thread, both would compete
    for the cores.
    """
    size, columns = matrix.shape[0] * matrix.shape[1], matrix.shape[1]
    if size < _WORTH_THREADS or not isinstance(matrix, np.ndarray):
        return [_quietly(work, _slices(0, columns, width))]
    step = -(-columns // (LANES * width)) * width
    lanes = [_slices(start, min(start + step, columns), width) for start in range(0, columns, step)]
    if is_spilled(matrix):
        lanes = [_forgetful(lane, matrix) for lane in lanes]
    if len(lanes) == 1 or cores() == 1 or (blas and _blas() is None):
        return [_quietly(work, lane) for lane in lanes]
    return list(_pool().map(_quietly, repeat(work), lanes))


def _quietly(work: Callable[[Iterator[slice]], T], lane: Iterator[slice]) -> T:
    """Work without overflow warnings, which new threads enable: callers look for overflow in the result."""
    with np.errstate(over="ignore", invalid="ignore"):
        return work(lane)


def _slices(start: int, stop: int, width: int) -> Iterator[slice]:
    return (slice(at, min(at + width, stop)) for at in range(start, stop, width))


def _forgetful(lane: Iterator[slice], matrix: Array) -> Iterator[slice]:
    """Yield the blocks of a lane, and take those that were read out of memory from time to time."""
    most, start, stop = _RESIDENT // (len(matrix) * matrix.itemsize), None, 0
    for columns in lane:
        start, stop = columns.start if start is None else start, columns.stop
        yield columns
        if stop - start >= most:
            forget(matrix[:, start:stop])
            start = None
    if start is not None:
        forget(matrix[:, start:stop])


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), thread_name_prefix="f2ed")


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


@cache
def _blas() -> Any:
    """Return a handle on the BLAS in use, or None where threadpoolctl (extra `fast`) is not installed."""
    try:
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415  optional
    except ModuleNotFoundError:
        return None
    return ThreadpoolController().select(user_api="blas")


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread, where that is possible: our own threads and small matrices are faster that way."""
    blas = _blas()
    return nullcontext() if blas is None else blas.limit(limits=1)
