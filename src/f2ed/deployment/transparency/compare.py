"""Checks over several logs: where two parties were told different things, both signed lines show it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import UnsetType

from f2ed.deployment.transparency.chain import Authors, Checked, Progress, check_files
from f2ed.deployment.transparency.findings import Finding
from f2ed.deployment.transparency.lines import (
    SERVER,
    Began,
    Blamed,
    Confirmed,
    Decided,
    Gave,
    KeysSeen,
    Line,
    RoundClosed,
    SetSigned,
    Struck,
    Uploaded,
    Voted,
    line_digest,
    read_line,
)

__all__ = ["Comparison", "compare_logs", "verify_logs"]

_IN_ROUND = (Began, KeysSeen, Uploaded, Confirmed, Blamed, Voted, SetSigned, Gave, Decided, Struck)


class Comparison(NamedTuple):
    """The files, and what was found in them."""

    files: tuple[Checked, ...]
    findings: tuple[Finding, ...]


def verify_logs(paths: Sequence[Path], authors: Authors, *, progress: Progress = lambda *_: None) -> Comparison:
    """Check each log, and that the lines which the server kept of a node are in the node's log."""
    return _examined(paths, authors, progress, across=lambda told: told.histories())


def compare_logs(paths: Sequence[Path], authors: Authors, *, progress: Progress = lambda *_: None) -> Comparison:
    """Check each log, and whether all parties were told the same."""

    def across(told: "_Told") -> Iterator[Finding]:
        yield from told.histories()
        yield from told.rosters()
        yield from told.views()
        yield from told.unlisted()

    return _examined(paths, authors, progress, across=across)


def _examined(
    paths: Sequence[Path], authors: Authors, progress: Progress, *, across: "Callable[[_Told], Iterator[Finding]]"
) -> Comparison:
    findings: list[Finding] = []
    told = _Told(authors)
    files = check_files(paths, authors, found=findings.append, seen=told.take, progress=progress)
    return Comparison(tuple(files), (*findings, *across(told)))


class _Sighting(NamedTuple):
    digest: bytes
    where: str


class _Told:
    """Collects what every author says it was told; lines are kept only where they may become evidence."""

    def __init__(self, authors: Authors) -> None:
        self._authors = authors
        self._lines: dict[tuple[int, int], _Sighting] = {}
        self._twice: dict[tuple[int, int], tuple[str, str, Line]] = {}
        self._ends: dict[int, int] = {}
        self._kept: dict[int, tuple[Line, str]] = {}
        self._rosters: dict[int, dict[bytes, Line]] = {}
        self._views: dict[tuple[int, int, str], dict[object, tuple[Line, set[int]]]] = {}
        self._began: dict[int, Line] = {}
        self._listed: set[int] = set()

    def take(self, line: Line, where: str, own: bool) -> None:
        """Take in a signed line, from its author's log or from the server's."""
        place, digest = (line.by, line.seq), line_digest(line)
        first = self._lines.setdefault(place, _Sighting(digest, where))
        if first.digest != digest:
            self._twice.setdefault(place, (first.where, where, line))
        if own:
            self._ends[line.by] = max(line.seq, self._ends.get(line.by, 0))
        elif line.by not in self._kept or line.seq > self._kept[line.by][0].seq:
            self._kept[line.by] = (line, where)
        self._rosters.setdefault(line.serial, {}).setdefault(line.roster, line)
        for round_, shard, what, value in _statements(line):
            values = self._views.setdefault((round_, shard, what), {})
            values.setdefault(value, (line, set()))[1].add(line.by)
        if isinstance(line.data, Began):
            self._began.setdefault(line.data.round, line)
        elif isinstance(line.data, RoundClosed):
            self._listed.add(line.data.round)

    def histories(self) -> Iterator[Finding]:
        """Find authors that signed two lines with one number, or more lines than their log holds."""
        for (by, seq), (where, other, line) in sorted(self._twice.items()):
            text = f"{self._authors.name(by)} signed two lines {seq}: one is in {where}, another in {other}"
            first = _found(where, by, seq)
            yield Finding(kind="equivocation", where=other, text=text, lines=(*first, line))
        for by, (line, where) in sorted(self._kept.items()):
            if by in self._ends and line.seq > self._ends[by]:
                text = f"the log of {self._authors.name(by)} ends at line {self._ends[by]}; the server holds {line.seq}"
                yield Finding(kind="cut-off", where=where, text=text, lines=(line,))

    def rosters(self) -> Iterator[Finding]:
        """Find serials with two rosters."""
        for serial, found in sorted(self._rosters.items()):
            if len(found) > 1:
                lines = tuple(found.values())
                who = " and ".join(f"{self._authors.name(line.by)}: {line.roster.hex()[:16]}…" for line in lines)
                text = f"{len(found)} rosters with serial {serial}: {who}"
                yield Finding(kind="two-rosters", where=f"serial {serial}", text=text, lines=lines)

    def views(self) -> Iterator[Finding]:
        """Find rounds in which members of a shard, server and helpers were told different things."""
        for (round_, shard, what), values in sorted(self._views.items(), key=lambda item: item[0]):
            if len(values) > 1:
                sides = "; ".join(
                    f"{_shown(value)} by {', '.join(map(self._authors.name, sorted(said_by)))}"
                    for value, (_, said_by) in values.items()
                )
                yield Finding(
                    kind="split-view",
                    where=f"round {round_}, shard {shard}",
                    text=f"{len(values)} different values of {what}: {sides}",
                    lines=tuple(line for line, _ in values.values()),
                )

    def unlisted(self) -> Iterator[Finding]:
        """Find rounds that a node or helper began and the server does not list, up to the last one that it lists."""
        for round_, line in sorted(self._began.items()):
            if self._listed and round_ not in self._listed and round_ < max(self._listed):
                text = f"{self._authors.name(line.by)} began round {round_}; the server's log does not list it"
                yield Finding(kind="unlisted-round", where=f"round {round_}", text=text, lines=(line,))


def _statements(line: Line) -> Iterator[tuple[int, int, str, object]]:
    """Yield (round, shard, what, value) for all that must be equal over members of a shard, server and helpers."""
    data = line.data
    if isinstance(data, RoundClosed):
        for shard in data.shards:
            yield data.round, shard.shard, "ctx", shard.ctx
            yield data.round, shard.shard, "input", data.input
            if shard.survivors:
                yield data.round, shard.shard, "survivors", shard.survivors
        return
    if isinstance(data, _IN_ROUND):
        yield data.round, data.shard, "ctx", data.ctx
    if isinstance(data, Began):
        yield data.round, data.shard, "input", data.input
        yield data.round, data.shard, "members", data.members
        if not isinstance(data.terms, UnsetType):
            yield data.round, data.shard, "terms", data.terms
    if isinstance(data, Began | KeysSeen) and data.keyset:
        yield data.round, data.shard, "keyset", data.keyset
    if isinstance(data, Confirmed | Decided):
        yield data.round, data.shard, "survivors", data.survivors
    if isinstance(data, Voted | SetSigned | Decided | Struck):
        yield from ((data.round, data.shard, what, value) for what, value in _by_helpers(data))


def _by_helpers(data: Voted | SetSigned | Decided | Struck) -> Iterator[tuple[str, object]]:
    """Yield what mixer and judge must have been shown, or have computed, alike."""
    if isinstance(data, Voted):
        yield "envelopes shown", data.shown
    elif isinstance(data, SetSigned):
        yield "set", data.clients
        yield "envelopes", data.envelopes
    elif isinstance(data, Decided):
        yield "struck", data.struck
        yield "mask", data.mask
    else:
        yield "struck after blame", data.clients


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return f"{value.hex()[:16]}…"
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _found(where: str, by: int, seq: int) -> tuple[Line, ...]:
    """Read a line again from where it was seen."""
    path, _, number = where.rpartition(":")
    with Path(path).open("rb") as file:
        text = next(text for place, text in enumerate(file, 1) if place == int(number))
    line = read_line(text.removesuffix(b"\n"))
    if line.by == SERVER and by != SERVER:
        carried = line.data.heads if isinstance(line.data, RoundClosed) else getattr(line.data, "lines", ())
        return tuple(each for each in carried if (each.by, each.seq) == (by, seq))[:1]
    return (line,)
