"""The protocol's exchange over Flower's grid: requests go out together, replies come in as they arrive.

Whoever is not connected, answers with an error, or is late, has sent nothing: a dropped client, with a reason.
"""

import time
from collections.abc import Iterator, Mapping
from logging import WARNING, getLogger
from threading import Lock

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from f2ed.core.errors import PeerError
from f2ed.flower.wire import reply_bytes, request_content
from f2ed.protocol.secagg import read_request
from f2ed.protocol.sharding import ClientId

__all__ = ["Line", "Round"]

_log = getLogger("f2ed.flower")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5
_AT_ONCE = 8
_LONGER = 10.0
"""A message outlives its deadline by this many seconds, so that whoever is late is called late and not unheard of."""


class Line:
    """Asks nodes, and yields what they answer until all did or time is up. May be used from several threads."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._one_at_a_time = Lock()

    def node_ids(self) -> list[int]:
        """Return who is connected."""
        with self._one_at_a_time:
            return list(self._grid.get_node_ids())

    def ask(self, contents: Mapping[int, RecordDict], *, group: str, deadline: float) -> Iterator[tuple[int, Message]]:
        """Send each node its content and yield (node, reply) as replies come; nodes that are late are left out."""
        yield from self.ask_each({node: (content, deadline) for node, content in contents.items()}, group=group)

    def ask_each(
        self, contents: Mapping[int, tuple[RecordDict, float]], *, group: str
    ) -> Iterator[tuple[int, Message]]:
        """Do the same with a deadline of its own for each node."""
        since = time.monotonic()
        messages = [
            Message(content, node, "train", ttl=deadline + _LONGER, group_id=group)
            for node, (content, deadline) in contents.items()
        ]
        with self._one_at_a_time:
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
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _pull(self, messages: list[str]) -> Iterator[Message]:
        """Yield the replies that have come, a few at a time: an upload may be large, and there may be many."""
        for start in range(0, len(messages), _AT_ONCE):
            with self._one_at_a_time:
                replies = list(self._grid.pull_messages(messages[start : start + _AT_ONCE]))
            while replies:
                yield replies.pop()


class Round:
    """The exchange of one round. The model travels only with the requests that ask for an update."""

    def __init__(
        self,
        line: Line,
        nodes: Mapping[ClientId, int],
        *,
        number: int,
        model: bytes,
        arrays: ArrayRecord,
        config: ConfigRecord,
        deadline: float,
        train_deadline: float,
    ) -> None:
        self._line = line
        self._nodes = nodes
        self._number = number
        self.model = model
        self._arrays = arrays
        self._config = config
        self._deadline = deadline
        self._train_deadline = train_deadline
        self.errors: dict[ClientId, str] = {}
        """Why a client was not heard, where more is known than that it was silent."""

    def __call__(self, requests: Mapping[ClientId, bytes]) -> Iterator[tuple[ClientId, bytes]]:
        """Deliver requests and yield replies in the order of arrival."""
        self.errors |= {client: "not connected" for client in requests if client not in self._nodes}
        there = {self._nodes[client]: client for client in requests if client in self._nodes}
        contents = {node: self._content(requests[client]) for node, client in there.items()}
        for node, reply in self._line.ask_each(contents, group=str(self._number)) if contents else ():
            client = there.pop(node)
            try:
                heard = reply_bytes(reply)
            except PeerError as error:
                self.errors[client] = str(error)
                _log.log(WARNING, "f2ed: client %s (node %s): %s", client, node, error)
            else:
                yield client, heard
        self.errors |= {client: f"late: no reply within {contents[node][1]:g} s" for node, client in there.items()}

    def _content(self, request: bytes) -> tuple[RecordDict, float]:
        """Return what a client is sent, and how long it may take."""
        settings = ConfigRecord({"request": request, "model": self.model})
        if not read_request(request).asks_update:
            return request_content(settings), self._deadline
        return request_content(settings, arrays=self._arrays, config=self._config), self._train_deadline
