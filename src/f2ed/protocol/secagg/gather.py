"""How the server adds uploads."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from f2ed.core.errors import PeerError
from f2ed.core.spill import Zeros, forget
from f2ed.protocol.primitives.gather import gather, was_silent
from f2ed.protocol.primitives.ring import Ring, Words
from f2ed.protocol.secagg.messages import TAG_BYTES, Upload, read_reply
from f2ed.protocol.secagg.terms import Terms
from f2ed.protocol.sharding import ClientId

__all__ = ["Adder", "Replies", "Requests", "gather", "name_some", "was_silent"]

_PIECE = 1 << 22

Requests = Mapping[ClientId, bytes]
Replies = Mapping[ClientId, bytes]


class Adder:
    """Adds uploads as they arrive. It keeps the total, and one vector per group of which some uploads are missing."""

    def __init__(
        self,
        terms: Terms,
        tag: bytes,
        *,
        groups: Collection[tuple[ClientId, ...]] = (),
        zeros: Zeros = np.zeros,
    ) -> None:
        self._ring = Ring(terms.ring)
        self._tag = tag[:TAG_BYTES]
        self._length = terms.length
        self._group_of = {client: group for group in groups for client in group}
        self._partial: dict[tuple[ClientId, ...], tuple[Words, set[ClientId]]] = {}
        self.payload = terms.length * self._ring.wire_bytes
        self._zeros = zeros
        self.total: Words = self._empty()

    def take(self, client: ClientId, reply: bytes) -> None:
        """Add one upload, or raise `PeerError` for one that cannot be added."""
        upload = read_reply(Upload, reply, payload=self.payload)
        self.add(client, upload.tag, upload.payload)

    def add(self, client: ClientId, tag: bytes, payload: memoryview) -> None:
        """Add the vector of a client: to the total, or to that of its group until the group is complete."""
        if tag != self._tag:
            raise PeerError(
                "an upload under another context: other terms, another roster, another model, or other keys and parcels"
            )
        group = self._group_of.get(client)
        if group is None:
            self._add(self.total, payload)
            return
        words, missing = self._partial.get(group) or (self._empty(), set(group))
        self._add(words, payload)
        missing.discard(client)
        self._partial[group] = words, missing
        if not missing:
            del self._partial[group]
            for start in range(0, self._length, _PIECE):
                piece, some = self.total[start : start + _PIECE], words[start : start + _PIECE]
                np.add(piece, some, out=piece)
                forget(piece)
                forget(some)

    def _add(self, words: Words, payload: memoryview) -> None:
        """Add piece by piece, so that little of a vector in a file is in memory."""
        if len(payload) != self.payload:
            self._ring.add_packed(words, payload)  # Raises.
        width = self._ring.wire_bytes
        for start in range(0, self._length, _PIECE):
            piece = words[start : start + _PIECE]
            self._ring.add_packed(piece, payload[start * width : (start + len(piece)) * width])
            forget(piece)

    def _empty(self) -> Words:
        return self._zeros((self._length,), self._ring.dtype)


def name_some(clients: Iterable[ClientId]) -> str:
    """Name the first few clients, for a reason that stays readable."""
    names = [str(client) for client in sorted(clients)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
