"""Order statistics of each column: sorted blocks, medians, and the values nearest a median.

On a CPU few rows are sorted by a network of minima and maxima, each over a whole block of columns at once; many rows by
NumPy's own sort, on the transposed block. On a GPU torch sorts.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from f2ed.core.arrays import Array, like, namespace
from f2ed.estimators._linalg.gram import NotFiniteError

__all__ = ["median", "nearest", "sort", "weighted_bounds", "weighted_median", "weighted_middle", "weighted_nearest"]

Vector = npt.NDArray[np.float64]

_NETWORK_ROWS = 64  # beyond this NumPy's sort is as fast
_ROUNDING = 1e-6  # of the whole weight, which float32 blurs


def sort(block: Array) -> list[Array]:
    """Return the block's rows with every column in ascending order: the smallest values first."""
    ordered, xp = _sort(block), namespace(block)
    # NaN comes out last, and first too where minima and maxima propagate it.
    if not (bool(xp.isfinite(ordered[0]).all()) and bool(xp.isfinite(ordered[-1]).all())):
        raise NotFiniteError
    return ordered


def _sort(block: Array) -> list[Array]:
    if not isinstance(block, np.ndarray):
        return list(namespace(block).sort(block, dim=0).values)
    if len(block) > _NETWORK_ROWS:
        columns = np.ascontiguousarray(block.T)
        columns.sort(axis=1)
        return list(np.ascontiguousarray(columns.T))
    rows = [np.array(row) for row in block]
    spare = np.empty_like(rows[0])
    for low, high in _network(len(block)):
        np.minimum(rows[low], rows[high], out=spare)
        np.maximum(rows[low], rows[high], out=rows[high])
        rows[low], spare = spare, rows[low]
    return rows


def median(ordered: list[Array]) -> Array:
    """Return the median of sorted rows: the middle one, or the mean of the two in the middle."""
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return ordered[middle - 1] / 2 + ordered[middle] / 2


def nearest(ordered: list[Array], keep: int) -> Array:
    """Return the mean, in each column, of the `keep` values nearest its median (of two equally near, the lower).

    In sorted rows these are adjacent, and the window over them moves up while the value it gains is nearer than the
    one it loses. Values are selected, never added and subtracted again, so a far outlier leaves no rounding error.
    """
    xp, n, center = namespace(ordered[0]), len(ordered), median(ordered)
    drop = n - keep
    moves = [ordered[i + keep] - center < center - ordered[i] for i in range(drop)]
    total = sum(ordered[drop:keep])
    for i in (*range(min(drop, keep)), *range(max(drop, keep), n)):
        chosen = moves[i - keep] if i >= keep else ~moves[i]
        total = total + xp.where(chosen, ordered[i], 0)
    for i in range(keep, drop):  # only where less than half is kept: gained, and not lost again
        total = total + xp.where(moves[i - keep] & ~moves[i], ordered[i], 0)
    return total / keep


def weighted_middle(block: Array, weights: Vector, cut: float) -> Array:
    """Return the mean of each column without the smallest and largest values that have a weight of `cut` on each side.

    A value on the border counts in part. If nothing is left it is the weighted median: the value that holds half of the
    weight, or the mean of two where one ends there.
    """
    xp = namespace(block)
    ordered, sizes, ends = _weighted(block, weights)
    total = float(weights.sum())
    if 2 * cut >= total * (1 - _ROUNDING):
        half, slack = total / 2, total * _ROUNDING
        below, above = (ends < half - slack).sum(0), (ends <= half + slack).sum(0)
        places = xp.arange(block.shape[1]) if xp is np else xp.arange(block.shape[1], device=block.device)
        return ordered[below, places] / 2 + ordered[above, places] / 2
    inside = xp.clip(xp.minimum(ends, ends * 0 + (total - cut)) - xp.maximum(ends - sizes, ends * 0 + cut), 0, None)
    return (inside * ordered).sum(0) / inside.sum(0)


def weighted_bounds(block: Array, weights: Vector, cut: float) -> tuple[Array, Array]:
    """Return, for each column, the smallest and the largest value with a weight of more than `cut` up to them."""
    xp = namespace(block)
    ordered, sizes, ends = _weighted(block, weights)
    beyond = cut + float(weights.sum()) * _ROUNDING
    rest = ends[-1] - ends + sizes
    low = xp.where(ends > beyond, ordered, ordered[-1]).min(0)
    high = xp.where(rest > beyond, ordered, ordered[0]).max(0)
    return _values(low), _values(high)


def weighted_nearest(block: Array, weights: Vector, total: float) -> Array:
    """Return the mean, in each column, of the values nearest its weighted median that have this weight together.

    Of two equally near the lower comes first; the last one counts in part.
    """
    xp = namespace(block)
    ordered, sizes, _ = _weighted(block, weights)
    center = weighted_middle(block, weights, float(weights.sum()) / 2)
    order = _argsort(xp.abs(ordered - center), stable=True)[1]
    ordered, sizes = (_taken(each, order) for each in (ordered, sizes))
    ends = xp.cumsum(sizes, 0)
    inside = xp.clip(xp.minimum(ends, ends * 0 + total) - (ends - sizes), 0, None)
    return (inside * ordered).sum(0) / inside.sum(0)


def weighted_median(values: Vector, weights: Vector) -> float:
    """Return the weighted median of a few numbers."""
    return float(weighted_middle(values[:, None], weights, float(weights.sum()) / 2)[0])


def _weighted(block: Array, weights: Vector) -> tuple[Array, Array, Array]:
    """Return the sorted values of each column, their weights, and the weights summed up to each."""
    xp = namespace(block)
    ordered, order = _argsort(block)
    if not bool(xp.isfinite(ordered[[0, -1]]).all()):
        raise NotFiniteError
    sizes = like(block, weights)[order]
    return ordered, sizes, xp.cumsum(sizes, 0)


def _argsort(block: Array, *, stable: bool = False) -> tuple[Array, Array]:
    xp = namespace(block)
    if xp is not np:
        found = xp.sort(block, dim=0, stable=stable)
        return found.values, found.indices
    order = np.argsort(block, axis=0, kind="stable" if stable else None)
    return np.take_along_axis(block, order, axis=0), order


def _taken(block: Array, order: Array) -> Array:
    return np.take_along_axis(block, order, 0) if isinstance(block, np.ndarray) else block.gather(0, order)


def _values(found: Array) -> Array:
    """Return the values of torch's minima and maxima, which come with their places."""
    return found if isinstance(found, np.ndarray) else found.values


@cache
def _network(n: int) -> tuple[tuple[int, int], ...]:
    """Return the comparisons of Batcher's merge exchange (Knuth, TAOCP 3, Algorithm 5.2.2M)."""
    pairs: list[tuple[int, int]] = []
    top = 1 << max((n - 1).bit_length() - 1, 0)
    p = top if n > 1 else 0
    while p:
        q, r, distance = top, 0, p
        while distance:
            pairs += [(i, i + distance) for i in range(n - distance) if i & p == r]
            distance, q, r = q - p, q // 2, p
        p //= 2
    return tuple(pairs)
