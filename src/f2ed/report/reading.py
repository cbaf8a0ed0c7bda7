"""Read records as they are: what is broken is named and passed over, and nothing else is lost with it.

`records.read` refuses a file that is not whole, as whoever continues a run must. A page about many runs shows what
there is: a line that was cut off, an accuracy that is not a number, a header of an older version or a key of a newer
one become a `Problem`.
"""

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar, final

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.records import FORMAT, RoundRecord, RunHeader, holds_records, unpacked
from f2ed.records.migration import migrate_header, migrate_round
from f2ed.report.lines import older_header, parsed

__all__ = ["SHOWN_ROUNDS", "Intake", "Picture", "Problem", "Run", "find", "read_runs"]

SHOWN_ROUNDS = 500
"""A page shows at most about so many rounds of a run; of longer runs every second, fourth, … one."""
_MOST_PROBLEMS = 12
_LONGEST_LINE = 64 << 20
_PNG = b"\x89PNG\r\n"
_MOST_PICTURES, _LARGEST_PICTURE = 40, 1 << 19

Kind = TypeVar("Kind", RunHeader, RoundRecord)


@final
class Problem(msgspec.Struct, frozen=True):
    """Something in a file that could not be used as it is; `line` counts from 1, 0 is the file as a whole."""

    file: str
    line: int
    text: str
    level: Literal["broken", "note"] = "broken"


@final
class Picture(msgspec.Struct, frozen=True):
    """True images above what was recovered of them; `png` is in base64."""

    caption: str
    png: str


@final
class Run(msgspec.Struct, frozen=True):
    """What could be read of one file."""

    file: str
    header: RunHeader
    rounds: tuple[RoundRecord, ...]
    every: int = 1
    """Only rounds divisible by this were kept, and the last."""
    seen: int = 0
    """How many rounds the file holds."""
    audits: tuple[dict[str, Any], ...] = ()
    pictures: tuple[Picture, ...] = ()
    """What an audit recovered, for the eye."""

    @property
    def finished(self) -> bool:
        """Whether the last round is there."""
        return bool(self.rounds) and self.rounds[-1].round + 1 >= self.header.rounds

    @property
    def crowd(self) -> int:
        """The fewest clients in whose sum an update was seen in any round; before the first, what was promised."""
        return min((each.crowd for each in self.rounds if each.crowd), default=self.header.crowd)


def find(paths: Iterable[Path]) -> dict[str, Path]:
    """Return the record files among files and folders, by a short name that tells them apart."""
    found: dict[str, Path] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*.jsonl*") if holds_records(each))
            found |= {each.relative_to(path).as_posix(): each for each in inside}
        elif path.is_file():
            found[path.name if path.name not in found else path.as_posix()] = path
        else:
            raise ConfigError(
                f"{path} is not there; name a folder that f2ed run has written to, or a .jsonl file in it"
            )
    return found


def read_runs(paths: Sequence[Path], shown: int | None = None) -> tuple[list[Run], list[Problem]]:
    """Read all runs of files and folders; raise `ConfigError` only where there is no file at all."""
    files = find(paths)
    if not files:
        raise ConfigError(f"no records (*.jsonl) in {', '.join(map(str, paths))}; make some with: f2ed run FILE.toml")
    runs, problems = [], []
    for name, path in files.items():
        intake = Intake(name, shown)
        try:
            intake.feed(unpacked(path))
        except OSError as error:
            problems.append(Problem(name, 0, f"cannot be read: {error.strerror}"))
            continue
        if (run := intake.run()) is not None:
            runs.append(run)
        problems += intake.problems()
    return runs, problems


@final
class Intake:
    """A file of records, taken in piece by piece as it grows; memory stays bounded if `shown` is given."""

    def __init__(self, file: str, shown: int | None = None) -> None:
        self.file = file
        self._shown = shown
        self._tail = b""
        self._line = 0
        self._header: RunHeader | None = None
        self._rounds: dict[int, RoundRecord] = {}
        self._last: RoundRecord | None = None
        self._every, self._seen = 1, 0
        self._audits: list[dict[str, Any]] = []
        self._pictures: dict[str, Picture] = {}
        self._problems: list[Problem] = []
        self._left_out = 0
        self._said: set[str] = set()
        self._older = False

    def feed(self, piece: bytes) -> None:
        """Take in what was appended; a line counts once its end is there."""
        *lines, self._tail = (self._tail + piece).split(b"\n")
        for text in lines:
            self._line += 1
            if text.strip():
                self._take(text)
        if len(self._tail) > _LONGEST_LINE:
            self._complain(f"a line of more than {_LONGEST_LINE >> 20} MiB is no record; it is passed over")
            self._tail = b""

    def run(self) -> Run | None:
        """Return what there is so far; None without a header."""
        if self._header is None:
            return None
        rounds = dict(self._rounds)
        if self._last is not None:
            rounds[self._last.round] = self._last
        ordered = tuple(rounds[number] for number in sorted(rounds))
        pictures = tuple(self._pictures.values())
        return Run(self.file, self._header, ordered, self._every, self._seen, tuple(self._audits), pictures)

    @property
    def torn(self) -> bool:
        """Whether the file ends in the middle of a line, or before its header."""
        return bool(self._tail) or self._header is None

    def problems(self, *, settled: bool = True) -> list[Problem]:
        """Return what was wrong; while a file is being written, a line or header that is not there yet is not."""
        found = list(self._problems)
        if self._left_out:
            found.append(Problem(self.file, 0, f"{self._left_out} more problems of this file are not listed"))
        if self._tail and settled:
            begin = self._tail[:40].decode(errors="replace")
            found.append(Problem(self.file, self._line + 1, f"is cut off in the middle: {begin}…; it is not used"))
        if self._header is None and settled:
            found.append(
                Problem(self.file, 0, "has no header of a run, so none of it is shown; was it written by f2ed run?")
            )
        return found

    def _take(self, text: bytes) -> None:
        try:
            found = parsed(text)
        except ValueError as wrong:
            self._complain(f"is not a record ({wrong}); the other lines are used")
            return
        match found.get("record"):
            case "run":
                self._begin(found)
            case "round":
                self._add(found)
            case "audit":
                self._audits = [*self._audits, found][-200:]
            case "picture":
                self._show(found)
            case other:
                self._once(f"is of a kind that this version does not know ({other!r}); passed over")

    def _show(self, found: dict[str, Any]) -> None:
        try:
            picture = msgspec.convert(found, Picture)
            genuine = b64decode(picture.png, validate=True).startswith(_PNG)
        except (msgspec.ValidationError, ValueError):
            genuine = False
        if not genuine or len(picture.png) > _LARGEST_PICTURE or len(self._pictures) >= _MOST_PICTURES:
            self._complain("is a picture that cannot be shown: it is no PNG, too large, or one too many", "note")
        else:
            self._pictures[picture.caption] = picture

    def _begin(self, found: dict[str, Any]) -> None:
        self._older = found.get("format", 1) < FORMAT
        found = migrate_header(found)
        header = self._convert(found, RunHeader, older_header(found, self.file))
        if header is None:
            return
        if self._header is not None and self._header.digest != header.digest:
            self._complain("is the header of another run; one file holds one run, and the first is shown")
            return
        self._header = header

    def _add(self, found: dict[str, Any]) -> None:
        if self._older and self._header is not None:
            found = migrate_round(found, self._header.crowd)
        record = self._convert(found, RoundRecord, {})
        if record is None:
            return
        if record.accuracy is not None and not isfinite(record.accuracy):
            self._complain(f"round {record.round}: the accuracy is not a number; the curve has a gap there", "note")
        self._seen += 1
        self._keep(record)

    def _keep(self, record: RoundRecord) -> None:
        """Keep the round if it is on the grid of those shown; the last one is always there."""
        if self._last is not None and self._last.round % self._every == 0:
            self._rounds[self._last.round] = self._last
        # A run that was taken up again may write rounds a second time: what came last counts.
        if self._last is not None and record.round <= self._last.round:
            self._rounds = {number: kept for number, kept in self._rounds.items() if number < record.round}
            self._seen = min(self._seen, record.round + 1)
        self._last = record
        if self._shown is not None and len(self._rounds) >= 2 * self._shown:
            self._every *= 2
            self._rounds = {number: kept for number, kept in self._rounds.items() if number % self._every == 0}

    def _convert(self, found: dict[str, Any], kind: type[Kind], missing: Mapping[str, Any]) -> Kind | None:
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        for key in sorted(set(found) - set(fields) - {"record"}):
            self._once(f"has a key that this version does not know: {key}; it is passed over")
        try:
            return msgspec.convert(found, kind, str_keys=True)
        except msgspec.ValidationError:
            pass
        values: dict[str, Any] = {}
        for name, field in fields.items():
            try:
                values[name] = msgspec.convert(found[name], field.type, str_keys=True)
            except KeyError:
                if field.required and name not in missing:
                    self._complain(f"has no {name}; the line is not used")
                    return None
                if field.required:
                    self._once(f"has no {name}, as if written by another version of f2ed; shown without it")
                    values[name] = missing[name]
            except msgspec.ValidationError as wrong:
                if field.required and name not in missing:
                    self._complain(f"has a {name} that cannot be read ({wrong}); the line is not used")
                    return None
                if name != "accuracy" or found[name] is not None:
                    self._complain(f"has a {name} that cannot be read ({wrong}); shown without it", "note")
                if field.required:
                    values[name] = missing[name]
        return kind(**values)

    def _complain(self, text: str, level: Literal["broken", "note"] = "broken") -> None:
        if len(self._problems) >= _MOST_PROBLEMS:
            self._left_out += 1
        else:
            self._problems.append(Problem(self.file, self._line, text, level))

    def _once(self, text: str) -> None:
        """Note what is likely to be the same in every line."""
        if text not in self._said and len(self._said) < 100:
            self._said.add(text)
            self._complain(text, "note")
