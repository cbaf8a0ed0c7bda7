"""How the server asks, and how it adds.

A driver sends what it has, `{client: bytes}`; the generator yields `{}` while it waits for more. A step ends when
every client that was asked has answered, or when the driver sends `{}`: the deadline has passed, and clients that
did not answer are dropped. So the plain loop `requests = server.send(exchange(requests))` works, and so does one reply
at a time, which keeps one upload in memory and not one per client.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TypeVar

from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.ring import Ring, Words
from f2ed.protocol.secagg.messages import TAG_BYTES, Upload, read_reply
from f2ed.protocol.secagg.terms import Terms
from f2ed.protocol.sharding import ClientId

__all__ = ["Adder", "Replies", "Requests", "gather", "name_some"]

Requests = Mapping[ClientId, bytes]
Replies = Mapping[ClientId, bytes]
Result = TypeVar("Result")


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
    dropped.update(dict.fromkeys(waiting, f"{what}: no reply"))
    return dict(sorted(taken.items()))


class Adder:
    """Adds uploads as they arrive; the total is all it keeps."""

    def __init__(self, terms: Terms, context: bytes) -> None:
        self._ring = Ring(terms.ring)
        self._tag = context[:TAG_BYTES]
        self._payload = terms.length * self._ring.wire_bytes
        self.total: Words = self._ring.zeros(terms.length)

    def take(self, client: ClientId, reply: bytes) -> None:  # noqa: ARG002  the signature that `gather` calls
        """Add one upload, or raise `PeerError` for one that cannot be added."""
        upload = read_reply(Upload, reply, payload=self._payload)
        if upload.tag != self._tag:
            raise PeerError("an upload under another context: other terms, another roster or another model")
        self._ring.add_packed(self.total, upload.payload)


def name_some(clients: Iterable[ClientId]) -> str:
    """Name the first few clients, for a reason that stays readable."""
    names = [str(client) for client in sorted(clients)]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
