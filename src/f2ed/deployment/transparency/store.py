"""The file of a log: lines are added to its end, on disk before anybody is told, and never taken back.

A crash may leave a torn line at the end. It stays there; the author adds a line that names it, and goes on. A file that
has grown large is renamed, and the next one continues the chain.

A helper's lines are in its memory before they are here: `plan` signs them, and `complete` adds what is missing of them,
after a crash too.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, final

import msgspec

from f2ed.core.errors import ConfigError, PeerError
from f2ed.core.files import Lock, append, locked, unwritable
from f2ed.deployment.transparency.lines import (
    HELPERS,
    SERVER,
    Boot,
    Event,
    Line,
    Pinned,
    Repaired,
    line_now,
    read_line,
    signed_line,
    write_line,
)

__all__ = ["LogFile", "PlannedLines", "log_lines"]

_MOST_BYTES = 64 << 20
_TAIL_BYTES = 1 << 16
_ELSEWHERE = "name another folder with f2ed-state in the node config, or --state of a helper"


@final
class PlannedLines(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Signed lines that are yet to be added, at one place of the file."""

    at: int
    """The size of the file before."""
    data: bytes
    last: int
    """The number of the last line."""


class LogFile(NamedTuple):
    """The log of one author in one federation."""

    path: Path
    by: int
    signing_key: bytes
    lineage: str
    roster: bytes
    """The digest of the roster that the author follows."""
    serial: int
    most_bytes: int = _MOST_BYTES
    """A larger file is renamed, and the next one continues the chain."""

    def __repr__(self) -> str:
        """Show no secret."""
        return f"LogFile({str(self.path)!r}, by={self.by}, signing_key=<secret>)"

    def append(self, *events: Event) -> Line:
        """Add events, and return the newest line once it is on the disk; without events, the newest line there is.

        The first line of a log is a `boot`, and the first under another roster a `pinned`.
        """
        with self._locked() as lock:
            line, data = self._following(_read_end(_current(self.path)), events)
            if data:
                lock.check()
                self._rotate()
                append(self.path, data, mode=0o600)
                lock.check()
            return line

    def plan(self, *events: Event) -> PlannedLines:
        """Return the lines that add these events, signed; nothing else may be added before them."""
        with self._locked():
            line, data = self._following(_read_end(_current(self.path)), events)
            self._rotate()
            return PlannedLines(self.path.stat().st_size if self.path.exists() else 0, data, line.seq)

    def complete(self, planned: PlannedLines) -> Line:
        """Add what is missing of planned lines, whole or torn by a crash; return the newest line.

        A log that ends before the place of these lines is refused: it was cut off, or put back from a backup.
        """
        with self._locked() as lock:
            newest = _read_end(_current(self.path)).line
            if newest is not None and newest.seq >= planned.last:
                return newest
            there = _since(self.path, planned.at)
            if there is None or not planned.data.startswith(there):
                raise ConfigError(
                    f"the log {self.path} lacks lines that were signed, up to line {planned.last}; put the file back "
                    "as it was. Without it, let the authority name a new helper with a new key"
                )
            lock.check()
            append(self.path, planned.data[len(there) :], mode=0o600)
            lock.check()
            return read_line(planned.data.splitlines()[-1])

    @contextmanager
    def _locked(self) -> Iterator[Lock]:
        try:
            with locked(self.path, remedy=_ELSEWHERE) as lock:
                yield lock
        except OSError as error:
            raise ConfigError(unwritable(self.path, error, "the log")) from None

    def _following(self, end: "_End", events: tuple[Event, ...]) -> tuple[Line, bytes]:
        """Return the newest line after these events, and all bytes to be added."""
        line, parts = end.line, [end.missing]
        if line is not None and line.by != self.by:
            raise ConfigError(
                f"{self.path} is the log of {author_name(line.by)}, and this is {author_name(self.by)}; {_ELSEWHERE}"
            )
        new: list[Event] = [] if end.torn is None else [end.torn]
        if line is None:
            new.append(Boot())
        if line is None or line.roster != self.roster:
            new.append(Pinned())
        for event in (*new, *events):
            draft = line_now(self.by, event, after=line, roster=self.roster, serial=self.serial)
            line = signed_line(draft, self.signing_key, lineage=self.lineage)
            parts.append(write_line(line) + b"\n")
        assert line is not None  # noqa: S101  there is a boot line at least
        return line, b"".join(parts)

    def _rotate(self) -> None:
        if self.path.exists() and self.path.stat().st_size >= self.most_bytes:
            places = [int(found.suffixes[-2][1:]) for found in _rotated(self.path)]
            self.path.rename(self.path.with_suffix(f".{max(places, default=0) + 1:06d}{self.path.suffix}"))


def log_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a log from the oldest on, renamed files included; what a crash tore is left out."""
    for each in [*_rotated(path), path]:
        if each.exists():
            with each.open("rb") as file:
                for text in file:
                    with suppress(PeerError):
                        yield read_line(text.removesuffix(b"\n"))


def author_name(by: int) -> str:
    """Return an author's name for people."""
    parties = {SERVER: "the server"} | {number: f"the {role}" for role, number in HELPERS.items()}
    return parties.get(by, f"client {by}")


class _End(NamedTuple):
    """The end of a file."""

    line: Line | None = None
    """The last whole line; None if there is none."""
    missing: bytes = b""
    """What closes the last line, if it was torn."""
    torn: Repaired | None = None
    """Names what is left of a torn line."""


def _rotated(path: Path) -> list[Path]:
    """Return the renamed files of a log, from the oldest to the newest."""
    return sorted(path.parent.glob(f"{path.stem}.[0-9][0-9][0-9][0-9][0-9][0-9]{path.suffix}"))


def _current(path: Path) -> Path:
    """Return the file with the newest line: after a crash while it was renamed, the renamed one."""
    return path if path.exists() or not (before := _rotated(path)) else before[-1]


def _since(path: Path, at: int) -> bytes | None:
    """Return the bytes of a file from a place on; None for a shorter file."""
    if not path.exists():
        return None if at else b""
    with path.open("rb") as file:
        return None if path.stat().st_size < at or file.seek(at) != at else file.read()


def _read_end(path: Path) -> _End:
    """Read a file from its end backwards, to its last whole line."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return _End()
    length = _TAIL_BYTES
    with path.open("rb") as file:
        while True:
            start = max(0, size - length)
            file.seek(start)
            if (end := _end_of(file.read(), whole=start == 0)) is not None:
                return end
            length *= 8


def _end_of(data: bytes, *, whole: bool) -> _End | None:
    """Return the end of these bytes, or None if it is not in them; `whole` if they are all bytes of the file."""
    if not data:
        return _End()
    closing = b"" if data.endswith(b"\n") else b"\n"
    end = len(data) - 1 + len(closing)  # Of a line, without its newline.
    while end >= 0:
        start = data.rfind(b"\n", 0, end) + 1
        if start == 0 and not whole:
            return None
        try:
            line = read_line(data[start:end])
        except PeerError:
            end = start - 1
        else:
            torn = data[end + 1 :]
            return _End(line, closing, _repair(torn) if torn else None)
    return _End(None, closing, _repair(data))


def _repair(torn: bytes) -> Repaired:
    return Repaired(size=len(torn), torn=hashlib.sha256(torn).digest())
