"""What the server computes from the masked rows and its own seeds: sketches, its share, and the sum it may open."""

from collections.abc import Mapping, Sequence
from typing import Protocol, final

import numpy as np

from f2ed.protocol.helpers.field import Elements, add, expand, fold_top, pack, reduce
from f2ed.protocol.helpers.keys import BLAME, SHOWN, PairKeys, mask_key
from f2ed.protocol.helpers.row_chunks import ShownRow, chunk_words, chunks_of, row_parts, write_shown
from f2ed.protocol.helpers.shares import (
    Copy,
    combine_rows,
    combined_mask,
    expanded,
    random_row,
    server_share,
    sketch_of,
    smudge,
    write_copy,
    write_share,
)
from f2ed.protocol.helpers.terms import JUDGE, MIXER, SERVER, Terms
from f2ed.protocol.primitives.crypto import Keystream
from f2ed.protocol.sharding import ClientId

__all__ = ["MemoryRows", "RowStore", "ServerRows"]

_CHUNK = 1 << 14


class RowStore(Protocol):
    """Where the server keeps masked rows until the end of a round: memory, or a file for many long ones."""

    def put(self, client: ClientId, row: Elements) -> None:
        """Keep a row."""

    def read(self, client: ClientId, start: int, stop: int) -> Elements:
        """Return some columns of a row."""


@final
class MemoryRows:
    """Masked rows in memory."""

    def __init__(self) -> None:
        self._rows: dict[ClientId, Elements] = {}

    def put(self, client: ClientId, row: Elements) -> None:
        """Keep a row."""
        self._rows[client] = row

    def read(self, client: ClientId, start: int, stop: int) -> Elements:
        """Return some columns of a row."""
        return self._rows[client][start:stop]


@final
class ServerRows:
    """The masked rows of the set, with the server's seeds for them."""

    def __init__(
        self, terms: Terms, context: bytes, store: RowStore, seeds: Mapping[ClientId, bytes], pairs: PairKeys
    ) -> None:
        self.clients = tuple(sorted(seeds))
        self._terms, self._context, self._store, self._seeds, self._pairs = terms, context, store, seeds, pairs
        self._masked: Elements = np.zeros((0, 0), np.uint64)

    def sketch(self, joint: bytes) -> bytes:
        """Return the sketches of the masked rows, [n, columns]."""

        def fill(rows: slice, columns: slice, out: Elements) -> None:
            for place, row in enumerate(range(rows.start, rows.stop)):
                out[place] = self._store.read(self.clients[row], columns.start, columns.stop)

        sketches = sketch_of(self._terms, joint).fold(len(self.clients), fill)
        self._masked = np.vstack([random_row(self._pairs, MIXER, self._terms.columns), sketches])
        return pack(sketches)

    def share(self, joint: bytes) -> bytes:
        """Return the server's share of the Gram matrix, and its test values, sealed to the judge."""
        fill = expanded(self._context, [(client, [(SERVER, self._seeds[client])]) for client in self.clients])
        sketches = sketch_of(self._terms, joint).fold(len(self.clients), fill)
        mask = np.vstack([random_row(self._pairs, JUDGE, self._terms.columns), sketches])
        share = server_share(self._masked, mask, self._terms, self._pairs, joint)
        return self._pairs.seal(JUDGE, b"shares", write_share(share))

    def combine(self, weights: Elements) -> bytes:
        """Return the combination of the masked rows, sealed to the judge."""
        row = combine_rows(weights, self._masked)
        copy = Copy(row, combined_mask(weights, self._pairs, MIXER))
        return self._pairs.seal(JUDGE, b"combination", write_copy(copy))

    def add_up(self, kept: Sequence[ClientId], mask: Elements) -> Elements:
        """Return the sum of the survivors' updates, given the mixer's part of it."""
        streams = [Keystream(mask_key(self._context, client, SERVER, self._seeds[client])) for client in kept]
        total = mask.copy()
        part, scratch = np.empty((2, min(_CHUNK, len(mask))), np.uint64)
        for start in range(0, len(total), _CHUNK):
            block = total[start : start + _CHUNK]
            some = part[: len(block)]
            for number, (client, stream) in enumerate(zip(kept, streams, strict=True)):
                expand(stream, some)
                block += some
                block += self._store.read(client, start, start + len(block))
                if number % 3 == 2:
                    fold_top(block, scratch[: len(block)])
            block[:] = reduce(block)
        return total

    def values(self, kept: Sequence[ClientId], coordinates: Sequence[int]) -> bytes:
        """Return the masked values of some coordinates under a smudge that the judge does not know, sealed to it."""
        values = np.array(
            [[int(self._store.read(client, place, place + 1)[0]) for place in coordinates] for client in kept],
            np.uint64,
        )
        hidden = add(values, smudge(self._pairs.common(MIXER, b"blame"), values.shape))
        return self._pairs.seal(JUDGE, BLAME, pack(hidden))

    def shown(self, kept: Sequence[ClientId], coordinates: Sequence[int]) -> bytes:
        """Return the parts of the masked rows that hold some coordinates, with proof, sealed to the mixer."""
        length = self._terms.coordinates
        places = [chunk_words(place, length) for place in chunks_of(coordinates)]
        rows = [
            ShownRow(
                client,
                row_parts(pack(self._store.read(client, 0, length))),
                tuple(pack(self._store.read(client, words.start, words.stop)) for words in places),
            )
            for client in kept
        ]
        return self._pairs.seal(MIXER, SHOWN, write_shown(rows))
