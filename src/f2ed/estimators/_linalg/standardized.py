"""The Gram matrix of rows in units of each coordinate's own spread."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from f2ed.core.arrays import Array, namespace, one_blas_thread, to_numpy
from f2ed.estimators._linalg import columns
from f2ed.estimators._linalg.gram import product
from f2ed.estimators._linalg.rows import Rows

__all__ = ["shortest_half", "standardized_gram"]

_ENOUGH = 1 << 20  # coordinates; of twice as many or more, evenly spaced ones are used
_SAMPLE = 4096  # coordinates that determine the smallest unit
_FLOOR = 0.1  # of the median spread: where honest rows agree by chance, the unit is not smaller
_FARTHEST = 10.0  # units; what is beyond is as far


def shortest_half(ordered: list[Array]) -> Array:
    """Return the width, in each column of sorted rows, of the narrowest interval with more than half of the values.

    Fewer than half of the rows can make it neither arbitrarily large nor, unless most rows agree, zero.
    """
    xp, half = namespace(ordered[0]), len(ordered) // 2
    width = ordered[half] - ordered[0]
    for low, high in zip(ordered[1:], ordered[half + 1 :], strict=False):
        width = xp.minimum(width, high - low)
    return width


def standardized_gram(rows: Rows) -> npt.NDArray[np.float64]:
    """Return the Gram matrix [n, n] of the rows less their median, divided by their spread: one pass that sorts.

    Every coordinate has about the same spread and a bounded range, so a million of them determine the matrix to a part
    in a thousand. Of more, one of `step` is used, from a random start on.
    """
    floor, step = _smallest_unit(rows), max(rows.d // _ENOUGH, 1)
    first = int(rows.rng.integers(step))
    if floor == 0:
        return np.zeros((rows.n, rows.n))

    def work(blocks: Iterator[slice]) -> Array:
        used = (slice(each.start + (first - each.start) % step, each.stop, step) for each in blocks)
        return sum(product(_standardized(rows.block(each), floor)) for each in used if each.start < each.stop)

    with one_blas_thread():
        return np.asarray(sum(to_numpy(part) for part in rows.walk(work, blas=True)))


def _standardized(block: Array, floor: float) -> Array:
    ordered, xp = columns.sort(block), namespace(block)
    away = (block - columns.median(ordered)) / (shortest_half(ordered) + floor)
    return xp.clip(away, -_FARTHEST, _FARTHEST)


def _smallest_unit(rows: Rows) -> float:
    """Return a tenth of the median spread over evenly spaced coordinates; of the mean one if most spreads are zero."""
    index = np.unique(np.linspace(0, rows.d - 1, min(rows.d, _SAMPLE)).astype(np.intp))
    some = rows.section(index)
    widths = np.asarray(to_numpy(shortest_half(columns.sort(some.block(slice(0, some.d))))), np.float64)
    return _FLOOR * (float(np.median(widths)) or float(widths.mean()))
