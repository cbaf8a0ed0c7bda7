"""Checks of one log: every line is signed, in its place, and names the line before."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, final

import msgspec

from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.roster import Roster, round_task
from f2ed.deployment.transparency.findings import Finding, Kind
from f2ed.deployment.transparency.lines import (
    GENESIS,
    HELPERS,
    SERVER,
    Began,
    Blamed,
    Decided,
    Equivocation,
    Gave,
    Line,
    Repaired,
    RoundClosed,
    SetSigned,
    Struck,
    Voted,
    check_line,
    line_digest,
    read_line,
)
from f2ed.deployment.transparency.store import author_name
from f2ed.protocol.aggregation import terms_of
from f2ed.protocol.secagg.schemes.dropout_tolerant.evidence import check_blame

__all__ = ["Authors", "Checked", "check_files"]

Progress = Callable[[Path, int, int], None]
"""Is told a file, and how many of how many bytes are done."""


class Authors(NamedTuple):
    """Who may write lines: everybody on one of the rosters of a federation, those who left, server and helpers."""

    lineage: str
    keys: dict[int, tuple[bytes, ...]]
    names: dict[int, str]
    rosters: dict[bytes, Roster]
    """By digest."""

    @classmethod
    def of(cls, rosters: Sequence[Roster]) -> "Authors":
        """Return the authors of all these rosters, which must be of one federation."""
        if len(found := {each.lineage for each in rosters}) != 1:
            raise ConfigError(f"rosters of {len(found)} federations; compare the logs of one at a time")
        keys: dict[int, set[bytes]] = {}
        names = {}
        for roster in rosters:
            known = [(each.id, each.name, each.key) for each in roster.clients]
            for client, name, key in [*known, *((each.id, each.name, each.key) for each in roster.gone)]:
                keys.setdefault(client, set()).add(key)
                names[client] = name
            if roster.server:
                keys.setdefault(SERVER, set()).add(roster.server)
            for each in roster.helpers.parties if roster.helpers else ():
                keys.setdefault(HELPERS[each.role], set()).add(each.key)
                names[HELPERS[each.role]] = each.operator
        known_keys = {by: tuple(sorted(each)) for by, each in keys.items()}
        return cls(rosters[0].lineage, known_keys, names, {each.digest: each for each in rosters})

    def check(self, line: Line) -> None:
        """Raise `PeerError` unless the author of a line signed it."""
        known = self.keys.get(line.by, ())
        if not known:
            missing = f"the roster names no key of {author_name(line.by)}" if line.by < 0 else "it is not on the roster"
            raise PeerError(f"line {line.seq} by {author_name(line.by)}: {missing}")
        if len(known) == 1 or not any(self._signs(key, line) for key in known):
            check_line(line, known[0], lineage=self.lineage)

    def _signs(self, key: bytes, line: Line) -> bool:
        try:
            check_line(line, key, lineage=self.lineage)
        except PeerError:
            return False
        return True

    def name(self, by: int) -> str:
        """Return an author's name for people."""
        return f"{author_name(by)} ({self.names[by]})" if by in self.names else author_name(by)


@final
class Checked(msgspec.Struct, frozen=True):
    """One file, after its check."""

    path: Path
    by: int
    first: int
    last: int
    count: int
    since: str
    until: str


class _Raw(NamedTuple):
    line: Line | None
    """None for bytes that are no line."""
    text: bytes
    number: int
    """Counts the lines of the file from 1."""


def check_files(
    paths: Iterable[Path],
    authors: Authors,
    *,
    found: Callable[[Finding], None],
    seen: Callable[[Line, str, bool], None],
    progress: Progress,
) -> list[Checked]:
    """Check each file, those of one author in the order of their lines, so that a chain may go on in the next file.

    `seen` is told every line that its author signed, where it is, and whether it is the author's own log.
    """
    last: dict[int, Line] = {}
    began: dict[tuple[object, ...], Line] = {}
    return [_Check(path, authors, found, seen, progress).run(last, began) for path in sorted(paths, key=_first_line)]


class _Check(NamedTuple):
    path: Path
    authors: Authors
    found: Callable[[Finding], None]
    seen: Callable[[Line, str, bool], None]
    progress: Progress

    def run(self, last: dict[int, Line], began: dict[tuple[object, ...], Line]) -> Checked:
        first: Line | None = None
        before: Line | None = None
        torn, count = b"", 0
        for raw in _lines(self.path, self.progress):
            if raw.line is None:
                torn += raw.text
                continue
            line, count = raw.line, count + 1
            self._torn(torn, line, raw)
            torn = b""
            if first is None:
                first = line
                before = last.get(line.by) if line.seq else None
            self._place(before, line, raw)
            before = line
            if self._signed(line, raw):
                self.seen(line, self._where(raw), True)
                self._began(line, raw, began)
                self._carried(line, raw)
                self._blamed(line, raw)
        self._end(torn)
        if first is None or before is None:
            raise ConfigError(f"{self.path} holds no line of a log; logs end in .log, in a node's state folder")
        last[first.by] = before
        return Checked(self.path, first.by, first.seq, before.seq, count, first.at, before.at)

    def _torn(self, torn: bytes, line: Line, raw: _Raw) -> None:
        """Look at bytes before this line that are no line, and at a line that names such bytes."""
        named = line.data if isinstance(line.data, Repaired) else None
        if named and len(torn) - named.size in {0, 1} and hashlib.sha256(torn[: named.size]).digest() == named.torn:
            self._find("repaired", raw, f"{named.size} bytes of a torn line, which line {line.seq} names", line)
        elif torn:
            self._find("unreadable", raw, f"{len(torn)} bytes before line {line.seq} are no line of a log")
        elif named:
            self._find("gap", raw, f"line {line.seq} names a torn line that is not there", line)

    def _end(self, torn: bytes) -> None:
        if torn.endswith(b"\n"):
            self.found(Finding(kind="unreadable", where=str(self.path), text="the last line is no line of a log"))
        elif torn:
            text = f"the last {len(torn)} bytes are not a whole line"
            self.found(Finding(kind="torn-end", where=str(self.path), text=text))

    def _place(self, before: Line | None, line: Line, raw: _Raw) -> None:
        wanted = 0 if before is None else before.seq + 1
        if before is not None and line.by != before.by:
            names = f"{self.authors.name(line.by)} in the log of {self.authors.name(before.by)}"
            self._find("author", raw, f"a line of {names}", line)
        elif line.seq != wanted:
            what = "the file begins with" if before is None else f"after line {before.seq} comes"
            self._find("gap", raw, f"{what} line {line.seq}; line {wanted} was expected", line)
        elif line.previous != (GENESIS if before is None else line_digest(before)):
            evidence = (line,) if before is None else (before, line)
            self._find("chain", raw, f"line {line.seq} continues another line than the one before it", *evidence)

    def _signed(self, line: Line, raw: _Raw) -> bool:
        try:
            self.authors.check(line)
        except PeerError as error:
            self._find("signature", raw, str(error), line)
            return False
        return True

    def _began(self, line: Line, raw: _Raw, began: dict[tuple[object, ...], Line]) -> None:
        """Look for a round, or a step of a helper in a round, that was taken twice."""
        data = line.data
        if not isinstance(data, Began | Voted | SetSigned | Gave | Decided | Struck):
            return
        step = data.what if isinstance(data, Gave) else type(data).__name__
        first = began.setdefault((line.by, data.round, step), line)
        if first == line:
            return
        who, where = self.authors.name(line.by), f"round {data.round} in line {first.seq} and in {line.seq}"
        if isinstance(data, Began):
            self._find("began-twice", raw, f"{who} began {where}", first, line)
        else:
            self._find("answered-twice", raw, f"{who} answered a step ({step.lower()}) of {where}", first, line)

    def _carried(self, line: Line, raw: _Raw) -> None:
        """Look at the nodes' lines that the server keeps in its own."""
        data = line.data
        carried = data.heads if isinstance(data, RoundClosed) else data.lines if isinstance(data, Equivocation) else ()
        for each in carried:
            if self._signed(each, raw):
                self.seen(each, self._where(raw), False)

    def _blamed(self, line: Line, raw: _Raw) -> None:
        """Check the evidence of a blame again, by the roster under which it was found."""
        if not isinstance(line.data, Blamed):
            return
        who = " or ".join(self.authors.name(client) for client in line.data.blame.clients)
        what = f"round {line.data.round}, shard {line.data.shard}: {who}"
        roster = self.authors.rosters.get(line.roster)
        if roster is None:
            self._find("blamed", raw, f"{what}, not checked: give the roster with serial {line.serial} too", line)
            return
        try:
            _check_blamed(line.data, roster)
        except PeerError as error:
            self._find("false-blame", raw, f"{what}: {error}", line)
        else:
            self._find("blamed", raw, f"{what}: {line.data.blame.reason}", line)

    def _find(self, kind: Kind, raw: _Raw, text: str, *lines: Line) -> None:
        self.found(Finding(kind=kind, where=self._where(raw), text=text, lines=lines))

    def _where(self, raw: _Raw) -> str:
        return f"{self.path}:{raw.number}"


def _check_blamed(data: Blamed, roster: Roster) -> None:
    if data.blame.context != data.ctx:
        raise PeerError("the evidence is of another round or shard")
    assignment = roster.assignment(data.round)
    if data.shard >= len(assignment.shards):
        raise PeerError(f"the roster has {len(assignment.shards)} shards")
    # Who is in the shard, and how many may collude, is the same in every run and for every model.
    task = round_task(roster, "", data.round, model=bytes(32), coordinates=1)
    check_blame(data.blame, terms_of(assignment, task, data.shard), roster.keys)


def _lines(path: Path, progress: Progress) -> Iterator[_Raw]:
    done, size = 0, path.stat().st_size
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            done += len(text)
            progress(path, done, size)
            try:
                line = read_line(text[:-1]) if text.endswith(b"\n") else None
            except PeerError:
                line = None
            yield _Raw(line, text, number)


def _first_line(path: Path) -> tuple[int, int, str]:
    """Return what the files are sorted by: the author and the number of the first line."""
    try:
        first = next((raw.line for raw in _lines(path, lambda *_: None) if raw.line is not None), None)
    except OSError as error:
        raise ConfigError(f"the log {path} cannot be read: {error.strerror}") from None
    return (SERVER, 0, str(path)) if first is None else (first.by, first.seq, str(path))
