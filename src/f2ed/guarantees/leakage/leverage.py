"""How much of one client's update the sums over groups determine, however often and in whatever union they are opened.

Every group that ever was is a row: its members' weights in the columns of everyone who ever was. Whatever the server
adds and subtracts is in the space of these rows. The leverage of a client is its diagonal entry of the projector onto
that space: the square of the cosine that the best linear guess of its update reaches without noise. 1 means that it is
determined exactly, and a group of g with equal weights, which shares no member with another, gives 1/g.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from f2ed.guarantees.leakage.rowspace import RowSpace
from f2ed.protocol.sharding import ClientId

__all__ = ["Row", "determined", "leverages", "worst_leverages"]

Matrix: TypeAlias = NDArray[Any]
Row = Mapping[ClientId, int]
"""The weights of the clients in a sum."""

# Singular values of rows of length 1. Rows that nearly agree differ by their weights, whose ratios are bounded.
_ZERO = 1e-9
_MOST_TRIED = 50_000
"""Colluders are chosen for so many clients, divided by the size of the component: of the largest leverage first."""


def leverages(rows: Iterable[Row]) -> dict[ClientId, float]:
    """Return the leverage of every client in the rows.

    Rows that share no client are solved apart: fixed groups cost nothing. 800 connected rows over 4,000 clients take
    some seconds.
    """
    found: dict[ClientId, float] = {}
    for several in _connected(rows):
        columns = sorted({client for row in several for client in row})
        if len(several) == 1:
            (row,) = several
            total = sum(weight * weight for weight in row.values())
            found |= {client: row[client] ** 2 / total for client in columns}
            continue
        found |= dict(zip(columns, _projected(several, columns), strict=True))
    return found


def worst_leverages(rows: Iterable[Row], *, in_row: int, in_all: int) -> dict[ClientId, float]:
    """Return the leverage of every client once colluders have told the server their own updates.

    There are at most `in_row` of them in each row and `in_all` together. In a row by itself the heaviest are the worst;
    in rows that share clients each is chosen to add the most to those before, so the result is a lower bound.
    """
    found: dict[ClientId, float] = {}
    for several in _connected(rows):
        if len(several) == 1:
            found |= _without_heaviest(several[0], min(in_row, in_all))
        else:
            found |= _without_chosen(several, in_row, in_all)
    return found


def determined(rows: Iterable[Row]) -> frozenset[ClientId]:
    """Return the clients whose own update the rows determine, by exact elimination modulo a prime."""
    found: set[ClientId] = set()
    for several in _connected(rows):
        columns = sorted({client for row in several for client in row})
        place = {client: index for index, client in enumerate(columns)}
        space = RowSpace(len(columns))
        space.add([{place[client]: weight for client, weight in row.items()} for row in several])
        found |= {client for client, single in zip(columns, space.single(), strict=True) if single}
    return frozenset(found)


def _without_heaviest(row: Row, number: int) -> dict[ClientId, float]:
    squares = {client: weight * weight for client, weight in row.items()}
    return {
        client: own
        / (own + sum(sorted(squares[other] for other in row if other != client)[: max(0, len(row) - 1 - number)]))
        for client, own in squares.items()
    }


def _without_chosen(rows: Sequence[Row], in_row: int, in_all: int) -> dict[ClientId, float]:
    columns = sorted({client for row in rows for client in row})
    directions = _directions(rows, columns)
    hidden = np.eye(len(columns)) - directions.T @ directions
    inside = np.array([[client in row for client in columns] for row in rows])
    first = np.argsort(np.diag(hidden), kind="stable")[: max(20, _MOST_TRIED // len(columns))]
    shares = {columns[index]: 1 - _least_hidden(hidden, inside, int(index), in_row, in_all) for index in first}
    return dict(zip(columns, (1 - np.diag(hidden)).tolist(), strict=True)) | shares


def _least_hidden(hidden: Matrix, inside: Matrix, client: int, in_row: int, in_all: int) -> float:
    """Return what stays hidden of a client: the entry of a Schur complement, after the columns of chosen colluders."""
    left, rest, used = hidden[client].copy(), np.diag(hidden).copy(), np.zeros(len(inside), int)
    most = min(in_all, len(rest) - 1)
    steps = np.zeros((most, len(rest)))
    free = np.arange(len(rest)) != client
    for number in range(most):
        free &= (rest > _ZERO) & ~inside[used >= in_row].any(axis=0)
        if not free.any() or left[client] <= _ZERO:
            break
        chosen = int(np.argmax(np.where(free, np.square(left) / np.maximum(rest, _ZERO), -1.0)))
        before = steps[:number]
        step = (hidden[chosen] - before[:, chosen] @ before) / np.sqrt(rest[chosen])
        left, rest, used = left - step * step[client], rest - np.square(step), used + inside[:, chosen]
        free[chosen], steps[number] = False, step
    return float(max(left[client], 0.0))


def _projected(rows: Sequence[Row], columns: Sequence[ClientId]) -> list[float]:
    """Return the diagonal of the projector onto the space of connected rows."""
    return [float(value) for value in np.square(_directions(rows, columns)).sum(axis=0)]


def _directions(rows: Sequence[Row], columns: Sequence[ClientId]) -> Matrix:
    """Return an orthonormal basis of the space of connected rows."""
    place = {client: index for index, client in enumerate(columns)}
    matrix = np.zeros((len(rows), len(columns)))
    for values, row in zip(matrix, rows, strict=True):
        for client, weight in row.items():
            values[place[client]] = weight
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    _, sizes, directions = np.linalg.svd(matrix, full_matrices=False)
    kept: Matrix = directions[sizes > _ZERO * sizes[0]]
    return kept


def _connected(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield the distinct rows, together with all that they share clients with."""
    distinct = list({tuple(sorted(row.items())): row for row in rows if row}.values())
    leader: dict[ClientId, ClientId] = {}

    def root(client: ClientId) -> ClientId:
        while leader.setdefault(client, client) != client:
            leader[client] = client = leader[leader[client]]
        return client

    for row in distinct:
        first = root(next(iter(row)))
        for client in row:
            leader[root(client)] = first
    parts: dict[ClientId, list[Row]] = {}
    for row in distinct:
        parts.setdefault(root(next(iter(row))), []).append(row)
    yield from parts.values()
