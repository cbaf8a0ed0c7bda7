"""The protocol's exchange over Flower's grid: requests go out together, replies come in as they arrive.

A client that is not connected, answers with an error, or is late has dropped out; the reason is kept.
"""

import time
from collections.abc import Iterator, Mapping
from logging import WARNING, getLogger
from threading import Lock
from typing import NamedTuple

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from f2ed.core.errors import PeerError
from f2ed.deployment.transparency import Heads
from f2ed.flower.wire import is_refusal, reply_bytes, reply_line, request_content
from f2ed.protocol.secagg import read_request
from f2ed.protocol.sharding import ClientId

__all__ = ["Connection", "Deadlines", "RoundExchange"]

_log = getLogger("f2ed.flower")

_FIRST_PAUSE, _MAX_PAUSE = 0.05, 0.5
_BATCH = 8
_GRACE = 10.0
"""A message outlives its deadline by this many seconds, so that a late reply is reported as late, not as unknown."""


class Deadlines(NamedTuple):
    """How long nodes may take, in seconds."""

    step: float
    train: float
    """For the step in which they train."""


class Connection:
    """Asks nodes and yields their answers until all have come or time is up. May be used from several threads."""

    def __init__(self, grid: Grid, heads: Heads | None = None) -> None:
        self._grid = grid
        self._heads = heads
        self._lock = Lock()

    def node_ids(self) -> list[int]:
        """Return the nodes that are connected."""
        with self._lock:
            return list(self._grid.get_node_ids())

    def ask(self, contents: Mapping[int, RecordDict], *, group: str, deadline: float) -> Iterator[tuple[int, Message]]:
        """Send each node its content and yield (node, reply) in the order of arrival; late nodes are left out."""
        yield from self.ask_each({node: (content, deadline) for node, content in contents.items()}, group=group)

    def ask_each(
        self, contents: Mapping[int, tuple[RecordDict, float]], *, group: str
    ) -> Iterator[tuple[int, Message]]:
        """Do the same with a deadline of its own for each node."""
        since = time.monotonic()
        messages = [
            Message(content, node, "train", ttl=deadline + _GRACE, group_id=group)
            for node, (content, deadline) in contents.items()
        ]
        with self._lock:
            pushed = list(self._grid.push_messages(messages))
        waiting = {each: node for each, node in zip(pushed, contents, strict=False) if each}
        pause = _FIRST_PAUSE
        while waiting:
            for reply in self._pull(list(waiting)):
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is not None:
                    yield node, reply
            passed = time.monotonic() - since
            waiting = {each: node for each, node in waiting.items() if contents[node][1] > passed}
            if waiting:
                time.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)

    def keep_line(self, client: ClientId, reply: Message) -> None:
        """Check and keep the line of its log that a client sent along, or raise `PeerError`; a refusal may have none.

        Simulated nodes keep no logs, so nothing is expected of them.
        """
        line = reply_line(reply)
        if self._heads is not None and (line or not is_refusal(reply_bytes(reply))):
            self._heads.take(client, line)

    def _pull(self, messages: list[str]) -> Iterator[Message]:
        """Yield the replies that have arrived, a few at a time: uploads may be large and many."""
        for start in range(0, len(messages), _BATCH):
            with self._lock:
                replies = list(self._grid.pull_messages(messages[start : start + _BATCH]))
            while replies:
                yield replies.pop()


class RoundExchange:
    """The exchange of one round. The model travels only with the requests that ask for an update."""

    def __init__(
        self,
        connection: Connection,
        nodes: Mapping[ClientId, int],
        *,
        number: int,
        model: bytes,
        arrays: ArrayRecord,
        config: ConfigRecord,
        deadlines: Deadlines,
    ) -> None:
        self._connection = connection
        self._nodes = nodes
        self._number = number
        self.model = model
        self._arrays = arrays
        self._config = config
        self._deadlines = deadlines
        self.errors: dict[ClientId, str] = {}
        """Why a client did not answer, where more is known than its silence."""

    def __call__(self, requests: Mapping[ClientId, bytes]) -> Iterator[tuple[ClientId, bytes]]:
        """Deliver requests and yield replies in the order of arrival."""
        self.errors |= {client: "not connected" for client in requests if client not in self._nodes}
        there = {self._nodes[client]: client for client in requests if client in self._nodes}
        contents = {node: self._content(requests[client]) for node, client in there.items()}
        for node, reply in self._connection.ask_each(contents, group=str(self._number)) if contents else ():
            client = there.pop(node)
            try:
                heard = reply_bytes(reply)
                self._connection.keep_line(client, reply)
            except PeerError as error:
                self.errors[client] = str(error)
                _log.log(WARNING, "f2ed: client %s (node %s): %s", client, node, error)
            else:
                yield client, heard
        self.errors |= {client: f"late: no reply within {contents[node][1]:g} s" for node, client in there.items()}

    def _content(self, request: bytes) -> tuple[RecordDict, float]:
        """Return the content of a request, and its deadline."""
        settings = ConfigRecord({"request": request, "model": self.model})
        if not read_request(request).asks_update:
            return request_content(settings), self._deadlines.step
        return request_content(settings, arrays=self._arrays, config=self._config), self._deadlines.train
