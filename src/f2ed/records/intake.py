"""Take in records piece by piece, as they are: what is broken is reported and skipped, the rest is used.

`records.read` refuses a file that is damaged, as continuing a run requires. A page about many runs shows what there
is: a line that was cut off, an accuracy that is not a number or a field of a newer version become a `Problem`.
"""

from base64 import b64decode
from math import isfinite
from typing import Any, Literal, final

import msgspec

from f2ed.records.lenient import as_record, header_defaults, parsed
from f2ed.records.migration import is_older, migrate_header, migrate_round
from f2ed.records.schema import RoundRecord, RunHeader

__all__ = ["Intake", "Problem", "RecordedPicture", "RecordedRun"]

_MAX_PROBLEMS = 12
_MAX_LINE = 64 << 20
_PNG = b"\x89PNG\r\n"
_MAX_PICTURES, _MAX_PICTURE = 40, 1 << 19
_MAX_AUDITS = 200


@final
class Problem(msgspec.Struct, frozen=True):
    """Something in a file that could not be used as it is; `line` counts from 1, 0 is the file as a whole."""

    file: str
    line: int
    text: str
    level: Literal["broken", "note"] = "broken"


@final
class RecordedPicture(msgspec.Struct, frozen=True):
    """True images above what an audit recovered of them; `png` is in base64."""

    caption: str
    png: str


@final
class RecordedRun(msgspec.Struct, frozen=True):
    """What could be read of one run."""

    file: str
    """The name of its file; in an archive, with the run's number."""
    header: RunHeader
    rounds: tuple[RoundRecord, ...]
    every: int = 1
    """Only rounds divisible by this were kept, and the last."""
    seen: int = 0
    """How many rounds the file holds."""
    audits: tuple[dict[str, Any], ...] = ()
    pictures: tuple[RecordedPicture, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether the last planned round is there, or the run ended early."""
        if not self.rounds:
            return False
        return self.rounds[-1].round + 1 >= self.header.rounds or bool(self.rounds[-1].run_ended)

    @property
    def crowd(self) -> int:
        """The smallest crowd of any round; before the first round, that of the header."""
        return min((each.crowd for each in self.rounds if each.crowd), default=self.header.crowd)


class _Run:
    """One run while it is read; memory stays bounded if `shown` is given."""

    def __init__(self, header: RunHeader, shown: int | None) -> None:
        self.header = header
        self._shown = shown
        self._rounds: dict[int, RoundRecord] = {}
        self._last: RoundRecord | None = None
        self._every, self._seen = 1, 0
        self.audits: list[dict[str, Any]] = []
        self.pictures: dict[str, RecordedPicture] = {}

    def add(self, record: RoundRecord) -> None:
        """Keep the round if it is on the grid of those shown; the last one is always kept."""
        self._seen += 1
        if self._last is not None and self._last.round % self._every == 0:
            self._rounds[self._last.round] = self._last
        # A resumed run may write rounds a second time: the last one counts.
        if self._last is not None and record.round <= self._last.round:
            self._rounds = {number: kept for number, kept in self._rounds.items() if number < record.round}
            self._seen = min(self._seen, record.round + 1)
        self._last = record
        if self._shown is not None and len(self._rounds) >= 2 * self._shown:
            self._every *= 2
            self._rounds = {number: kept for number, kept in self._rounds.items() if number % self._every == 0}

    def read(self, file: str) -> RecordedRun:
        """Return what there is so far."""
        rounds = dict(self._rounds)
        if self._last is not None:
            rounds[self._last.round] = self._last
        ordered = tuple(rounds[number] for number in sorted(rounds))
        pictures = tuple(self.pictures.values())
        return RecordedRun(file, self.header, ordered, self._every, self._seen, tuple(self.audits), pictures)


@final
class Intake:
    """A file of records, taken in piece by piece as it grows."""

    def __init__(self, file: str, shown: int | None = None) -> None:
        self.file = file
        self._shown = shown
        self._tail = b""
        self._line = 0
        self._runs: list[_Run] = []
        self._older = False
        self._problems: list[Problem] = []
        self._unlisted = 0
        self._noted: set[str] = set()

    def feed(self, piece: bytes) -> None:
        """Take in what was appended; a line counts once its end is there."""
        *lines, self._tail = (self._tail + piece).split(b"\n")
        for text in lines:
            self._line += 1
            if text.strip():
                self._take(text)
        if len(self._tail) > _MAX_LINE:
            self._complain(f"a line of more than {_MAX_LINE >> 20} MiB is not a record; it is skipped", "broken")
            self._tail = b""

    def runs(self) -> list[RecordedRun]:
        """Return what there is so far: one run, or those of an archive."""
        names = [self.file, *(f"{self.file}#{number}" for number in range(2, len(self._runs) + 1))]
        return [run.read(name) for run, name in zip(self._runs, names, strict=False)]

    @property
    def torn(self) -> bool:
        """Whether the file ends in the middle of a line, or before its header."""
        return bool(self._tail) or not self._runs

    def problems(self, *, settled: bool = True) -> list[Problem]:
        """Return what was wrong; a file that is still being written may lack the end of a line, or its header."""
        found = list(self._problems)
        if self._unlisted:
            found.append(Problem(self.file, 0, f"{self._unlisted} more problems of this file are not listed"))
        if self._tail and settled:
            begin = self._tail[:40].decode(errors="replace")
            found.append(Problem(self.file, self._line + 1, f"is cut off in the middle: {begin}…; it is not used"))
        if not self._runs and settled:
            text = "has no header of a run, so none of it is shown; was it written by f2ed?"
            found.append(Problem(self.file, 0, text))
        return found

    def _take(self, text: bytes) -> None:
        try:
            found = parsed(text)
        except ValueError as wrong:
            self._complain(f"is not a record ({wrong}); the other lines are used", "broken")
            return
        kind = found.get("record")
        if kind == "run":
            self._begin(found)
        elif kind not in {"round", "audit", "picture"}:
            self._complain(f"is of a kind that this version does not know ({kind!r}); skipped", "once")
        elif not self._runs:
            self._complain(f"is a {kind} before any header; it is not used", "once")
        elif kind == "round":
            self._add(found, self._runs[-1])
        elif kind == "audit":
            self._runs[-1].audits = [*self._runs[-1].audits, found][-_MAX_AUDITS:]
        else:
            self._show(found, self._runs[-1])

    def _begin(self, found: dict[str, Any]) -> None:
        self._older = is_older(found)
        if self._older:
            found = migrate_header(found)
        header = as_record(found, RunHeader, header_defaults(found, self.file), self._complain)
        if header is None:
            return
        if self._runs and self._runs[-1].header.digest == header.digest:
            self._runs[-1].header = header
        else:
            self._runs.append(_Run(header, self._shown))

    def _add(self, found: dict[str, Any], run: _Run) -> None:
        if self._older:
            found = migrate_round(found, run.header.crowd)
        record = as_record(found, RoundRecord, {}, self._complain)
        if record is None:
            return
        measured = record.accuracy is not None and isfinite(record.accuracy)
        if not measured and run.header.source == "simulation":
            self._complain(f"round {record.round}: the accuracy is not a number; the curve has a gap there", "note")
        run.add(record)

    def _show(self, found: dict[str, Any], run: _Run) -> None:
        try:
            picture = msgspec.convert(found, RecordedPicture)
            genuine = b64decode(picture.png, validate=True).startswith(_PNG)
        except (msgspec.ValidationError, ValueError):
            genuine = False
        if not genuine or len(picture.png) > _MAX_PICTURE or len(run.pictures) >= _MAX_PICTURES:
            self._complain("is a picture that cannot be shown: it is not a PNG, too large, or one too many", "note")
        else:
            run.pictures[picture.caption] = picture

    def _complain(self, text: str, level: Literal["broken", "note", "once"]) -> None:
        if level == "once":
            if text in self._noted or len(self._noted) >= 100:
                return
            self._noted.add(text)
            level = "note"
        if len(self._problems) >= _MAX_PROBLEMS:
            self._unlisted += 1
        else:
            self._problems.append(Problem(self.file, self._line, text, level))
