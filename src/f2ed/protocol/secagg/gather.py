"""How the server asks, and how it adds.

A driver sends what it has, `{client: bytes}`; the generator yields `{}` while it waits for more. A step ends when
every client that was asked has answered, or when the driver sends `{}`: the deadline has passed, and clients that
did not answer are dropped. So the plain loop `requests = server.send(exchange(requests))` works, and so does one reply
at a time, which keeps one upload in memory and not one per client.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from typing import TypeVar

from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.ring import Ring, Words
from f2ed.protocol.secagg.messages import TAG_BYTES, Upload, read_reply
from f2ed.protocol.secagg.terms import Terms
from f2ed.protocol.sharding import ClientId

__all__ = ["Adder", "Replies", "Requests", "gather", "name_some", "was_silent"]

Requests = Mapping[ClientId, bytes]
Replies = Mapping[ClientId, bytes]
Result = TypeVar("Result")
_NO_REPLY = "no reply"


def gather(
    what: str,
    requests: Requests,
    take: Callable[[ClientId, bytes], Result],
    dropped: dict[ClientId, str],
) -> Generator[Requests, Replies, dict[ClientId, Result]]:
    """Ask, and take each reply as it comes; a client that `take` rejects, or that does not answer, is dropped.

    A second reply, or one from a client that was not asked, is ignored: the first one stands.
    """
    taken: dict[ClientId, Result] = {}
    waiting = set(requests)
    replies = yield requests
    while replies:
        for client in replies:
            if client not in waiting:
                continue
            waiting.remove(client)
            try:
                taken[client] = take(client, replies[client])
            except PeerError as error:
                dropped[client] = f"{what}: {error}"
        if not waiting:
            break
        replies = {}  # An upload may fill the memory: release it while waiting for the next.
        replies = yield {}
    dropped.update(dict.fromkeys(waiting, f"{what}: {_NO_REPLY}"))
    return dict(sorted(taken.items()))


def was_silent(reason: str) -> bool:
    """Return whether a client was dropped because it did not answer."""
    return reason.endswith(f": {_NO_REPLY}")


class Adder:
    """Adds uploads as they arrive. It keeps the total, and one vector per group of which some uploads are missing."""

    def __init__(self, terms: Terms, tag: bytes, *, groups: Collection[tuple[ClientId, ...]] = ()) -> None:
        self._ring = Ring(terms.ring)
        self._tag = tag[:TAG_BYTES]
        self._length = terms.length
        self._group_of = {client: group for group in groups for client in group}
        self._partial: dict[tuple[ClientId, ...], tuple[Words, set[ClientId]]] = {}
        self.payload = terms.length * self._ring.wire_bytes
        self.total: Words = self._ring.zeros(terms.length)

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
            self._ring.add_packed(self.total, payload)
            return
        words, missing = self._partial.get(group) or (self._ring.zeros(self._length), set(group))
        self._ring.add_packed(words, payload)
        missing.discard(client)
        self._partial[group] = words, missing
        if not missing:
            self.total += self._partial.pop(group)[0]


def name_some(clients: Iterable[ClientId]) -> str:
    """Name the first few clients, for a reason that stays readable."""
    names = [str(client) for client in sorted(clients)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
