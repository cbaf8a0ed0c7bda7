"""The sketch: signed random foldings of rows to few columns, the same for everyone who knows the joint seed.

A folding cuts the coordinates into segments of `width`, starting at a random phase, gives each coordinate a random
sign, rotates each segment by a random offset and adds the segments up. Inner products of sketches are unbiased, with a
relative variance of at most 2 / columns. The width is prime and the phase random: otherwise a pattern that repeats
within a segment, or fills whole segments with (p ± 1)/2, which its own negative equals up to one, would be invisible.
`docs/helpers.md` has the proof.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from math import isqrt
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError
from f2ed.protocol.helpers.field import LAZY, Elements, P, fold_top, reduce
from f2ed.protocol.primitives.crypto import Keystream, derive
from f2ed.protocol.primitives.fields import fields, unsigned

__all__ = ["MAX_COORDINATES", "MIN_WIDTH", "Fill", "Sketch", "folding_width", "ternary"]

MAX_COORDINATES = 1 << 26
"""What the proof of the range tests covers."""
MIN_WIDTH = 3

_CHUNK = 1 << 13
_BATCH = 32
_P = np.uint64(P)

Fill = Callable[[slice, slice, Elements], None]
"""Writes the given rows, in the given columns, as words that are at most p; columns are asked for in order."""


def folding_width(columns: int, foldings: int) -> int:
    """Return the largest prime width such that the foldings together have at most so many columns."""
    width = columns // foldings
    while width >= MIN_WIDTH and any(width % factor == 0 for factor in range(2, isqrt(width) + 1)):
        width -= 1
    if width < MIN_WIDTH:
        raise ConfigError(f"a sketch of {columns} columns in {foldings} foldings; use at least {MIN_WIDTH * foldings}")
    return width


class _Folding(NamedTuple):
    phase: int
    offsets: npt.NDArray[np.int64]
    signs: Keystream


@final
class Sketch:
    """The foldings that a joint seed defines, for vectors of `coordinates`."""

    def __init__(self, seed: bytes, *, coordinates: int, columns: int, foldings: int) -> None:
        if not 1 <= coordinates <= MAX_COORDINATES:
            raise ConfigError(
                f"{coordinates} coordinates; sketches of 1 to {MAX_COORDINATES} are proven to show long updates"
            )
        self.width, self.foldings, self.coordinates = folding_width(columns, foldings), foldings, coordinates
        self._seed = seed

    @property
    def columns(self) -> int:
        """How many columns a sketched row has."""
        return self.width * self.foldings

    def fold(self, rows: int, fill: Fill) -> Elements:
        """Return the sketches [rows, columns] of rows that `fill` writes, chunk by chunk; one pass."""
        out = np.zeros((rows, self.foldings, self.width), np.uint64)
        foldings = [self._folding(number) for number in range(self.foldings)]
        block = np.empty((min(_BATCH, rows), min(_CHUNK, self.coordinates)), np.uint64)
        scratch = np.empty((len(block), self.width), np.uint64)
        collected = [0] * self.foldings
        for start in range(0, self.coordinates, _CHUNK):
            stop = min(start + _CHUNK, self.coordinates)
            signs = [_sign_masks(each.signs, stop - start) for each in foldings]
            # In place: each mask leads from the signs of one folding to those of the next.
            masks = [signs[0], *(one ^ other for one, other in pairwise(signs))]
            pieces = []
            for number, each in enumerate(foldings):
                found, collected[number] = _pieces(self._places(each, start, stop), collected[number])
                pieces.append(found)
            for first in range(0, rows, _BATCH):
                batch = slice(first, min(first + _BATCH, rows))
                words = block[: batch.stop - first, : stop - start]
                fill(batch, slice(start, stop), words)
                for number, mask in enumerate(masks):
                    np.bitwise_xor(words, mask, out=words)
                    _add_pieces(out[batch, number], words, pieces[number], scratch[: len(words)])
        return reduce(out).reshape(rows, self.columns)

    def _folding(self, number: int) -> _Folding:
        key = derive(self._seed, salt=b"", info=fields(b"f2ed helpers folding", unsigned(number)))
        segments = -(-self.coordinates // self.width) + 1
        draws = np.empty(segments + 1, "<u8")
        stream, raw = Keystream(key), draws.view(np.uint8).data
        for at in range(0, len(raw), 1 << 19):
            stream.fill(raw[at : at + (1 << 19)])
        drawn = (draws % np.uint64(self.width)).astype(np.int64)
        signs = Keystream(derive(self._seed, salt=b"", info=fields(b"f2ed helpers signs", unsigned(number))))
        return _Folding(int(drawn[0]), drawn[1:], signs)

    def _places(self, folding: _Folding, start: int, stop: int) -> Iterator[tuple[int, slice, slice]]:
        """Yield which columns of a chunk go to which buckets, with their segment, which has two pieces at most."""
        at = start
        while at < stop:
            segment, position = divmod(at + folding.phase, self.width)
            bucket = (position + int(folding.offsets[segment])) % self.width
            length = min(stop - at, self.width - position, self.width - bucket)
            yield segment, slice(at - start, at - start + length), slice(bucket, bucket + length)
            at += length


def ternary(seed: bytes, count: int, columns: int) -> npt.NDArray[np.int8]:
    """Return random vectors [count, columns] of -1 (a quarter), 0 (half) and 1 (a quarter)."""
    stream = Keystream(derive(seed, salt=b"", info=b"f2ed helpers tests"))
    drawn = np.empty((count, 2, -(-columns // 8)), np.uint8)
    raw = drawn.reshape(-1).data
    for at in range(0, len(raw), 1 << 19):
        stream.fill(raw[at : at + (1 << 19)])
    bits = np.unpackbits(drawn, axis=2, count=columns).astype(np.int8)
    return np.asarray(bits[:, 0] - bits[:, 1])


def _sign_masks(stream: Keystream, count: int) -> Elements:
    """Return p for each coordinate that changes its sign and 0 for the others; a chunk takes whole bytes."""
    drawn = np.empty(-(-count // 8), np.uint8)
    stream.fill(drawn.data)
    flips = np.unpackbits(drawn, count=count).astype(np.uint64)
    return (np.uint64(0) - flips) & _P


class _Piece(NamedTuple):
    columns: slice
    buckets: slice
    full: bool
    """Whether the buckets must be reduced before they collect more."""


def _pieces(places: Iterable[tuple[int, slice, slice]], collected: int) -> tuple[list[_Piece], int]:
    """Return the pieces of a chunk, given how many segments were collected before it, and how many are after it.

    A segment adds at most one word to a bucket, since it is only rotated; a part of one counts as a whole.
    """
    pieces, before = [], -1
    for segment, columns, buckets in places:
        full = segment != before and collected == LAZY
        collected = (0 if full else collected) + (segment != before)
        pieces.append(_Piece(columns, buckets, full))
        before = segment
    return pieces, collected


def _add_pieces(out: Elements, words: Elements, pieces: list[_Piece], scratch: Elements) -> None:
    for piece in pieces:
        if piece.full:
            fold_top(out, scratch)
        there = out[:, piece.buckets]
        np.add(there, words[:, piece.columns], out=there)
