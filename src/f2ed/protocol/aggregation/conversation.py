"""How protocol generators talk to clients over an exchange: in lockstep, or each on its own."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Generic, TypeVar, final

from f2ed.protocol.secagg import Replies, Requests
from f2ed.protocol.sharding import ClientId

__all__ = ["Conversation", "Exchange", "each_alone", "lockstep"]

Exchange = Callable[[Mapping[ClientId, bytes]], Mapping[ClientId, bytes] | Iterable[tuple[ClientId, bytes]]]
"""Delivers requests and brings back replies; an absent reply is a dropped client.

A mapping suffices. An iterator of (client, reply) pairs in the order of arrival keeps memory bounded, since each reply
is consumed before the next is requested. Waiting is the exchange's business: it stops when its deadline has passed,
which may differ from client to client. Shards in lockstep share one call per step; independent shards make their own
calls, from several threads at a time, so that each has its own deadlines and none waits for another.
"""

Result = TypeVar("Result")

_PULSE = 1.0


@final
class Conversation(Generic[Result]):
    """One generator with its clients: counts the bytes both ways, and hands over the result in the end."""

    def __init__(self, server: Generator[Requests, Replies, Result], finish: Callable[[Result], None]) -> None:
        self._server = server
        self._finish = finish
        self.bytes_up = 0
        self.bytes_down = 0

    def start(self) -> Requests:
        """Return the first requests."""
        return self._sent(next(self._server))

    def send(self, replies: Replies) -> Requests:
        """Hand over replies, or none after the deadline; return the next requests once this step is over."""
        self.bytes_up += sum(map(len, replies.values()))
        try:
            return self._sent(self._server.send(replies))
        except StopIteration as stop:
            # Whoever is told also holds this: let go, so that its arrays are freed at once, not by the collector.
            finish, self._finish = self._finish, _ignore
            finish(stop.value)
            return {}

    def _sent(self, requests: Requests) -> Requests:
        self.bytes_down += sum(map(len, requests.values()))
        return requests


def _ignore(_result: object) -> None:
    """Take a result that was taken before."""


def lockstep(exchange: Exchange, conversations: Iterable[Conversation[Result]]) -> None:
    """Take one step in all of these conversations per exchange, until each has its result."""
    requests = {client: (each, request) for each in conversations for client, request in each.start().items()}
    while requests:
        following: dict[ClientId, tuple[Conversation[Result], bytes]] = {}
        asked = {client: each for client, (each, _) in requests.items()}
        replies = exchange({client: request for client, (_, request) in requests.items()})
        for client, reply in replies.items() if isinstance(replies, Mapping) else replies:
            # A client that was not asked, or has answered, is ignored: it must not answer the next request too.
            if home := asked.pop(client, None):
                following |= {c: (home, request) for c, request in home.send({client: reply}).items()}
            del reply  # An upload may fill the memory: release it while waiting for the next.
        for late in set(asked.values()):
            following |= {c: (late, request) for c, request in late.send({}).items()}
        requests = following


def each_alone(
    exchange: Exchange, conversations: Sequence[Conversation[Result]], meanwhile: Callable[[], None] | None = None
) -> None:
    """Have every conversation in a thread of its own, so that none waits for another.

    `meanwhile` is called every second until all of them are over.
    """
    with ThreadPoolExecutor(len(conversations)) as pool:
        running = [pool.submit(lockstep, exchange, [each]) for each in conversations]
        while wait(running, timeout=_PULSE).not_done:
            if meanwhile is not None:
                meanwhile()
    for each in running:
        each.result()
