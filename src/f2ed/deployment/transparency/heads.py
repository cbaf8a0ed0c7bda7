"""The newest line of every node, as the server receives it: checked, kept, and held against the node later."""

from logging import WARNING, getLogger
from threading import Lock

from f2ed.core.errors import PeerError
from f2ed.deployment.roster import Roster
from f2ed.deployment.transparency.lines import MOST_BYTES, Line, check_line, read_line
from f2ed.protocol.sharding import ClientId

__all__ = ["Heads"]

_log = getLogger("f2ed.deployment")


class Heads:
    """Keeps the newest line of each client. May be used from several threads."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._newest: dict[ClientId, Line] = {}
        self._new: set[ClientId] = set()
        self._twice: list[tuple[Line, Line]] = []
        self._lock = Lock()

    def take(self, client: ClientId, text: bytes) -> None:
        """Check and keep the line that came with a reply, or raise `PeerError` if it is not the client's.

        A line that contradicts an earlier one is kept as evidence; the reply counts nevertheless.
        """
        if not text:
            raise PeerError("a reply without a line of the node's log; its version of f2ed may be older")
        if len(text) > MOST_BYTES:
            raise PeerError(f"a line of a log of {len(text)} bytes; it has at most {MOST_BYTES}")
        line = read_line(text)
        if line.by != client:
            raise PeerError(f"a line of the log of client {line.by}")
        check_line(line, self._roster.keys[client], lineage=self._roster.lineage)
        with self._lock:
            self._keep(client, line)

    def _keep(self, client: ClientId, line: Line) -> None:
        before = self._newest.get(client)
        if before is not None and line.seq == before.seq and line != before:
            self._twice.append((before, line))
        if before is not None and (line.seq < before.seq or (line.seq == before.seq and line != before)):
            _log.log(
                WARNING,
                "f2ed: the log of client %s went back from line %s to line %s: its disk was restored, or it shows two "
                "histories",
                client,
                before.seq,
                line.seq,
            )
        self._newest[client] = line
        self._new.add(client)

    def flush(self) -> tuple[tuple[Line, ...], list[tuple[Line, Line]]]:
        """Return the lines that are new since the last call, and pairs of lines that contradict each other."""
        with self._lock:
            new = tuple(self._newest[client] for client in sorted(self._new))
            twice, self._twice = self._twice, []
            self._new.clear()
        return new, twice
