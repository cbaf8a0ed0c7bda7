"""Fetching replies so that one which is still on its way delays no other.

Flower's SuperLink announces a reply before all of it has arrived, and the grid's `pull_messages` then waits for the
rest: as long as a slow node takes to send it, and for minutes where the node ended meanwhile. So over the network each
reply is fetched by itself, and one that is not whole yet is waited for in a thread of its own.
"""

from collections.abc import Sequence
from concurrent.futures import Future, wait
from threading import Thread

from flwr.app import Message
from flwr.serverapp import Grid

__all__ = ["Pulls"]

_OVER_NETWORK = "HttpGrid"
"""Flower's grid that reaches a SuperLink."""
_BATCH = 4
_PATIENCE = 1.0
_SPARING_PATIENCE = 10.0


class Pulls:
    """Fetches replies from a grid."""

    def __init__(self, grid: Grid, *, sparing: bool) -> None:
        """If `sparing` of memory, fetch one reply at a time, and a second only while the first is long in coming."""
        self._grid = grid
        # By its name: importing Flower's class imports databases, in the process of every client's app too.
        self._alone = any(each.__name__ == _OVER_NETWORK for each in type(grid).__mro__)
        self.batch = 1 if sparing or self._alone else _BATCH
        """How many messages to ask for at a time."""
        self._sparing = sparing
        self._begun: dict[str, Future[list[Message]]] = {}

    def __call__(self, messages: Sequence[str]) -> list[Message]:
        """Return the replies to these messages that have arrived whole."""
        if not self._alone:
            return list(self._grid.pull_messages(messages))
        return [reply for message in messages for reply in self._pull(message)]

    def forget(self, message: str) -> None:
        """Drop the reply to a message, should it still come."""
        self._begun.pop(message, None)

    def _pull(self, message: str) -> list[Message]:
        begun = self._begun.get(message)
        future = self._begin(message) if begun is None else begun
        if wait([future], self._patience() if begun is None else 0).done:
            self._begun.pop(message, None)
            return future.result()
        self._begun[message] = future
        return []

    def _patience(self) -> float | None:
        """Return how long to wait for a reply before the next is fetched; None for as long as it takes."""
        if not self._sparing:
            return _PATIENCE
        return None if self._begun else _SPARING_PATIENCE

    def _begin(self, message: str) -> Future[list[Message]]:
        future: Future[list[Message]] = Future()

        def pull() -> None:
            try:
                future.set_result(list(self._grid.pull_messages([message])))
            except Exception as error:  # noqa: BLE001  raised where the reply is waited for
                future.set_exception(error)

        # A daemon: the process may end, though a reply never arrives whole.
        Thread(target=pull, daemon=True).start()
        return future
