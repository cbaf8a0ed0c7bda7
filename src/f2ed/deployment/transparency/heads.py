"""The newest line of every node and helper, as the server receives it: checked, kept, and held against it later."""

from logging import WARNING, getLogger
from threading import Lock

from f2ed.core.errors import PeerError
from f2ed.deployment.roster import Roster
from f2ed.deployment.transparency.lines import HELPERS, MOST_BYTES, Line, check_line, read_line
from f2ed.deployment.transparency.store import author_name

__all__ = ["Heads"]

_log = getLogger("f2ed.deployment")


class Heads:
    """Keeps the newest line of each client and helper. May be used from several threads."""

    def __init__(self, roster: Roster) -> None:
        self._lineage = roster.lineage
        parties = roster.helpers.parties if roster.helpers else ()
        self._keys = dict(roster.keys) | {HELPERS[each.role]: each.key for each in parties}
        self._newest: dict[int, Line] = {}
        self._new: set[int] = set()
        self._twice: list[tuple[Line, Line]] = []
        self._lock = Lock()

    def take(self, author: int, text: bytes) -> None:
        """Check and keep the line that came with a reply, or raise `PeerError` if it is not the author's.

        A line that contradicts an earlier one is kept as evidence; the reply counts nevertheless.
        """
        if not text:
            raise PeerError("a reply without a line of the node's log; its version of f2ed may be older")
        if len(text) > MOST_BYTES:
            raise PeerError(f"a line of a log of {len(text)} bytes; it has at most {MOST_BYTES}")
        line = read_line(text)
        if line.by != author:
            raise PeerError(f"a line of the log of {author_name(line.by)}")
        check_line(line, self._keys[author], lineage=self._lineage)
        with self._lock:
            self._keep(author, line)

    def _keep(self, author: int, line: Line) -> None:
        before = self._newest.get(author)
        if before is not None and line.seq == before.seq and line != before:
            self._twice.append((before, line))
        if before is not None and (line.seq < before.seq or (line.seq == before.seq and line != before)):
            _log.log(
                WARNING,
                "f2ed: the log of %s went back from line %s to line %s: its disk was restored, or it shows two "
                "histories",
                author_name(author),
                before.seq,
                line.seq,
            )
        self._newest[author] = line
        self._new.add(author)

    def flush(self) -> tuple[tuple[Line, ...], list[tuple[Line, Line]]]:
        """Return the lines that are new since the last call, and pairs of lines that contradict each other."""
        with self._lock:
            new = tuple(self._newest[author] for author in sorted(self._new))
            twice, self._twice = self._twice, []
            self._new.clear()
        return new, twice
