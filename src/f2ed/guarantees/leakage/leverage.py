"""How much of one client's update the sums over groups determine, however often and in whatever union they are opened.

Every group that ever was is a row: its members' weights in the columns of everyone who ever was. Whatever the server
adds and subtracts is in the space of these rows. The leverage of a client is its diagonal entry of the projector onto
that space: the square of the cosine that the best linear guess of its update reaches without noise. 1 means that it is
determined exactly, and a group of g with equal weights, which shares no member with another, gives 1/g.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from f2ed.guarantees.leakage.rowspace import RowSpace
from f2ed.protocol.sharding import ClientId

__all__ = ["Row", "determined", "leverages"]

Row = Mapping[ClientId, int]
"""The weights of the clients in a sum."""

# Singular values of rows of length 1. Rows that nearly agree differ by their weights, whose ratios are bounded.
_ZERO = 1e-9


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


def _projected(rows: Sequence[Row], columns: Sequence[ClientId]) -> list[float]:
    """Return the diagonal of the projector onto the space of connected rows."""
    place = {client: index for index, client in enumerate(columns)}
    matrix = np.zeros((len(rows), len(columns)))
    for values, row in zip(matrix, rows, strict=True):
        for client, weight in row.items():
            values[place[client]] = weight
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    _, sizes, directions = np.linalg.svd(matrix, full_matrices=False)
    kept = directions[sizes > _ZERO * sizes[0]]
    return [float(value) for value in np.square(kept).sum(axis=0)]


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
