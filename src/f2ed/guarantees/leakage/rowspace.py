"""The sums that a server can compute from the sums it saw: exact elimination modulo a prime.

A set of clients whose sum was opened is a row of their weights, mostly ones, and zeros. A client's own update can be
solved for iff its unit vector is a combination of the rows. Rows are kept in reduced echelon form, in which that is
read off: the client's column is a pivot and its row is zero elsewhere. Arithmetic modulo a prime of 20 bits is exact in
float64, so that a matrix product does the work. The rank modulo a prime is never above the true one, and below it only
for the rare prime that divides a determinant; floating-point ranks have no such bound.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["PRIME", "RowSpace"]

PRIME = 1_048_573
# Balanced residues are about 2^19 in magnitude at most: this many products, and one more residue, stay below 2^53.
_MOST_TERMS = 1 << 14
_FEW_ROWS = 24

_Matrix = NDArray[np.float64]
_Columns = NDArray[np.int64]


class RowSpace:
    """All combinations of the rows seen so far; memory and time are those of a matrix product of rank x columns."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.pivots: _Columns = np.empty(0, np.int64)
        self.free: _Columns = np.arange(columns)
        self.rest: _Matrix = np.empty((0, columns))
        """The echelon form without its pivot columns, which are those of the identity."""

    @property
    def rank(self) -> int:
        """How many of the rows are independent."""
        return len(self.pivots)

    def add(self, rows: Sequence[Collection[int]]) -> None:
        """Take in rows, each given by its columns that are one, or by the weight of each column that is not zero."""
        if not rows or not len(self.free):
            return
        full = np.zeros((len(rows), self.columns))
        for row, given in zip(full, rows, strict=True):
            row[list(given)] = list(given.values()) if isinstance(given, Mapping) else 1
        if any(isinstance(given, Mapping) for given in rows):
            _reduce(full)
        block = full[:, self.free]
        if self.rank:
            _subtract_product(block, full[:, self.pivots], self.rest)
        block, places = _echelon(block)
        if not len(places):
            return
        kept = np.setdiff1d(np.arange(len(self.free)), places)
        below = block[:, kept]
        above = self.rest[:, kept]
        _subtract_product(above, self.rest[:, places], below)
        self.rest = np.concatenate([above, below])
        self.pivots = np.concatenate([self.pivots, self.free[places]])
        self.free = self.free[kept]

    def split(self, origins: Sequence[int]) -> None:
        """Append columns, each a copy of an older one: clients that were always together, and no longer are."""
        chosen = np.asarray(origins, np.int64)
        place = np.empty(self.columns, np.int64)
        place[self.free] = np.arange(len(self.free))
        place[self.pivots] = np.arange(self.rank)
        pivots = np.isin(chosen, self.pivots)
        more = np.zeros((self.rank, len(chosen)))
        more[:, ~pivots] = self.rest[:, place[chosen[~pivots]]]
        more[place[chosen[pivots]], np.flatnonzero(pivots)] = 1
        self.rest = np.concatenate([self.rest, more], axis=1)
        self.free = np.concatenate([self.free, self.columns + np.arange(len(chosen))])
        self.columns += len(chosen)

    @classmethod
    def joined(cls, spaces: "Sequence[RowSpace]") -> "RowSpace":
        """Return the space over the columns of all, in their order."""
        whole = cls(0)
        starts = np.cumsum([0, *(space.columns for space in spaces)])
        whole.columns = int(starts[-1])
        whole.pivots = np.concatenate([space.pivots + at for space, at in zip(spaces, starts, strict=False)])
        whole.free = np.concatenate([space.free + at for space, at in zip(spaces, starts, strict=False)])
        whole.rest = np.zeros((len(whole.pivots), len(whole.free)))
        row = column = 0
        for space in spaces:
            below, right = row + space.rank, column + len(space.free)
            whole.rest[row:below, column:right] = space.rest
            row, column = below, right
        return whole

    def single(self) -> NDArray[np.bool_]:
        """Say of each column whether its unit vector is in the space."""
        found = np.zeros(self.columns, dtype=bool)
        found[self.pivots[~self.rest.any(axis=1)]] = True
        return found


def _echelon(block: _Matrix) -> tuple[_Matrix, _Columns]:
    """Return the reduced echelon form of the block, without rows of zeros, and the column of each row's pivot.

    Halves are reduced by themselves and then by each other, so that nearly all of the work is in matrix products.
    """
    if len(block) <= _FEW_ROWS:
        return _echelon_of_few(block)
    half = len(block) // 2
    above, left = _echelon(block[:half])
    below = block[half:].copy()
    if len(left):
        _subtract_product(below, below[:, left], above)
    below, right = _echelon(below)
    if len(left) and len(right):
        _subtract_product(above, above[:, right], below)
    return np.concatenate([above, below]), np.concatenate([left, right])


def _echelon_of_few(block: _Matrix) -> tuple[_Matrix, _Columns]:
    block = block.copy()
    kept: list[int] = []
    pivots: list[int] = []
    for index in range(len(block)):
        row = block[index]
        if not row.any():
            continue
        pivot = int(np.argmax(row != 0))
        row *= pow(int(row[pivot]), -1, PRIME)
        _reduce(row)
        others = np.flatnonzero(block[:, pivot])
        others = others[others != index]
        if len(others):
            changed = block[others] - np.outer(block[others, pivot], row)
            _reduce(changed)
            block[others] = changed
        kept.append(index)
        pivots.append(pivot)
    return block[kept], np.array(pivots, dtype=np.int64)


def _subtract_product(target: _Matrix, left: _Matrix, right: _Matrix) -> None:
    """Subtract left @ right in place; what is zero on the left, much of it in the first rounds, costs nothing."""
    rows, terms = np.flatnonzero(left.any(axis=1)), np.flatnonzero(left.any(axis=0))
    for start in range(0, len(terms), _MOST_TERMS):
        some = terms[start : start + _MOST_TERMS]
        whole = len(rows) == len(left) and len(some) == left.shape[1]
        product = left @ right if whole else left[np.ix_(rows, some)] @ right[some]
        if len(rows) == len(target):
            target -= product
            _reduce(target)
        else:
            np.subtract(target[rows], product, out=product)
            _reduce(product)
            target[rows] = product


def _reduce(values: _Matrix) -> None:
    """Bring integers below 2^53 to residues of about the smallest magnitude, in place, in pieces that stay cached."""
    flat = values.reshape(-1) if values.flags.c_contiguous else values
    step = 1 << 15 if flat.ndim == 1 else 1
    for start in range(0, len(flat), step):
        part = flat[start : start + step]
        part -= PRIME * np.rint(part * (1 / PRIME))
