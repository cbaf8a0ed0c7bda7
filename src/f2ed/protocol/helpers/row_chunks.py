"""The hash of a masked row, by chunks: a few coordinates can be shown with proof, without the rest of the row."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import final

import msgspec
import numpy as np

from f2ed.core.errors import PeerError, Refusal
from f2ed.protocol.helpers.field import Elements, unpack
from f2ed.protocol.primitives.crypto import digest, same
from f2ed.protocol.sharding import ClientId

__all__ = [
    "ShownRow",
    "chunk_words",
    "chunks_of",
    "read_shown",
    "row_digest",
    "row_parts",
    "shown_values",
    "write_shown",
]

_CHUNK = 1 << 13
"""Coordinates of a chunk."""
_WORD = 8
_HASH = 32


@final
class ShownRow(msgspec.Struct, frozen=True, array_like=True):
    """Some chunks of a client's masked row, and the hashes of all of them."""

    client: ClientId
    hashes: bytes
    chunks: tuple[bytes, ...]
    """Those with the coordinates that are looked at, in ascending order."""


def chunk_words(place: int, coordinates: int) -> slice:
    """Return the coordinates of a chunk."""
    return slice(place * _CHUNK, min((place + 1) * _CHUNK, coordinates))


def row_parts(row: bytes | memoryview) -> bytes:
    """Return SHA-256 of every chunk of a row, joined."""
    view = memoryview(row)
    size = _CHUNK * _WORD
    return b"".join(hashlib.sha256(view[start : start + size]).digest() for start in range(0, len(view), size))


def row_digest(row: bytes | memoryview) -> bytes:
    """Return the digest by which an envelope names a masked row."""
    return _root(row_parts(row))


def write_shown(rows: Iterable[ShownRow]) -> bytes:
    """Return shown rows as bytes."""
    return msgspec.msgpack.encode(tuple(rows))


def read_shown(data: bytes) -> tuple[ShownRow, ...]:
    """Read shown rows, or raise `PeerError`."""
    try:
        return msgspec.msgpack.decode(data, type=tuple[ShownRow, ...])
    except msgspec.DecodeError as error:
        raise PeerError(f"shown rows that cannot be read: {error}") from None


def chunks_of(coordinates: Sequence[int]) -> list[int]:
    """Return the places of the chunks that hold these coordinates."""
    return sorted({coordinate // _CHUNK for coordinate in coordinates})


def shown_values(
    rows: Sequence[ShownRow], digests: Mapping[ClientId, bytes], coordinates: Sequence[int], length: int
) -> Elements:
    """Return the values of some coordinates of these clients' rows, or refuse what their envelopes do not name."""
    if [row.client for row in rows] != list(digests):
        raise Refusal("shown rows of other clients than the ones in the sum")
    return np.stack([_values(row, digests[row.client], coordinates, length) for row in rows])


def _values(row: ShownRow, expected: bytes, coordinates: Sequence[int], length: int) -> Elements:
    places = chunks_of(coordinates)
    if len(row.hashes) != _HASH * -(-length // _CHUNK) or not same(_root(row.hashes), expected):
        raise Refusal(f"the masked row of client {row.client} is not the one in its envelope; the server altered it")
    if len(row.chunks) != len(places):
        raise Refusal(f"{len(row.chunks)} chunks of a masked row; {len(places)} hold the coordinates")
    found: dict[int, Elements] = {}
    for place, chunk in zip(places, row.chunks, strict=True):
        if not same(hashlib.sha256(chunk).digest(), row.hashes[_HASH * place : _HASH * (place + 1)]):
            raise Refusal(f"a chunk of the masked row of client {row.client} is not the one in its envelope")
        words = chunk_words(place, length)
        found[place] = unpack(chunk, words.stop - words.start)
    return np.array([found[each // _CHUNK][each % _CHUNK] for each in coordinates], np.uint64)


def _root(hashes: bytes) -> bytes:
    return digest(b"f2ed helpers row", hashes)
