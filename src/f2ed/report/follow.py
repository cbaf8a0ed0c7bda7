"""Follow record files as they grow, and track which parts of the page changed.

Memory is bounded: a few hundred rounds of each run, and one state of the page with the number of the change that last
touched each part. A viewer gets the parts that are newer than its own.
"""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final
from uuid import uuid4

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.records import unpacked
from f2ed.records.intake import Intake, Problem, RecordedRun
from f2ed.records.reader import find
from f2ed.report.page import fragments
from f2ed.report.payload import SHOWN_ROUNDS, payload

__all__ = ["Board", "Folder"]

_PIECE = 1 << 20
_BEGINNING = 512
_SETTLED = 3.0


@final
class Folder:
    """All record files in a folder, as of the last look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, _Growing] = {}

    def look(self) -> bool:
        """Take in what was appended, created, rewritten or deleted; return whether there was anything."""
        found = self._found()
        gone = self._files.keys() - found.keys()
        for name in gone:
            del self._files[name]
        for name in found.keys() - self._files.keys():
            self._files[name] = _Growing(name, found[name])
        changed = [each.look() for each in self._files.values()]
        return any(changed) or bool(gone)

    def read(self) -> tuple[list[RecordedRun], list[Problem]]:
        """Return what there is."""
        files = [self._files[name] for name in sorted(self._files)]
        runs = [run for each in files for run in each.intake.runs()]
        return runs, [problem for each in files for problem in each.problems()]

    def _found(self) -> dict[str, Path]:
        try:
            return find([self._folder])
        except (ConfigError, OSError):  # not there yet, or just being deleted
            return {}


@final
class _Growing:
    """One file; if it is replaced, it is read again from the start."""

    def __init__(self, name: str, path: Path) -> None:
        self._name, self._path = name, path
        self._begin(None)

    def _begin(self, identity: tuple[int, int] | None) -> None:
        self.intake = Intake(self._name, SHOWN_ROUNDS)
        self._identity = identity
        self._beginning = b""
        self._read = 0
        self._changed: tuple[int, int] | None = None
        self._trouble = ""
        self._since = time.monotonic()
        self._settled = False

    def look(self) -> bool:
        try:
            status = self._path.stat()
            identity, changed = (status.st_dev, status.st_ino), (status.st_size, status.st_mtime_ns)
            if (identity, changed) == (self._identity, self._changed):
                return self._settle()
            self._since, self._settled = time.monotonic(), False
            if self._path.suffix != ".jsonl":  # a compressed file was put there whole
                self._begin(identity)
                self._changed = changed
                self.intake.feed(unpacked(self._path))
                return True
            with self._path.open("rb") as file:
                beginning = file.read(_BEGINNING)
                if (
                    identity != self._identity
                    or status.st_size < self._read
                    or not beginning.startswith(self._beginning)
                ):
                    self._begin(identity)
                self._beginning, self._changed, self._trouble = beginning, changed, ""
                file.seek(self._read)
                while piece := file.read(_PIECE):
                    self._read += len(piece)
                    self.intake.feed(piece)
        except OSError as error:
            known, self._trouble = self._trouble, f"cannot be read: {error.strerror}"
            return known != self._trouble
        return True

    def _settle(self) -> bool:
        """Return True once, when the file rests: only then does a line without its end count as cut off."""
        if self._settled or time.monotonic() - self._since < _SETTLED:
            return False
        self._settled = True
        return self.intake.torn

    def problems(self) -> list[Problem]:
        """Return what is wrong with the file."""
        if self._trouble:
            return [Problem(self._name, 0, self._trouble)]
        return self.intake.problems(settled=self._settled)


@final
class Board:
    """The page's data in parts, each with the number of its last change."""

    def __init__(self) -> None:
        self.name = uuid4().hex[:8]
        """Another board counts differently: a page that was connected to it needs everything again."""
        self.change = 0
        self.data: dict[str, Any] = payload([], [])
        self._parts: dict[tuple[str, str], tuple[int, bytes]] = {}
        self._gone: dict[tuple[str, str], int] = {}

    @property
    def mark(self) -> str:
        """The state that a page has, to be sent back when it asks for updates."""
        return f"{self.name}.{self.change}"

    def update(self, runs: list[RecordedRun], problems: list[Problem]) -> None:
        """Take the new state, and number what differs."""
        self.data = payload(runs, problems)
        self.change += 1
        parts = {(kind, key): msgspec.json.encode(value) for kind, key, value in _pieces(self.data)}
        for place in self._parts.keys() - parts.keys():
            del self._parts[place]
            self._gone[place] = self.change
        for place, content in parts.items():
            self._gone.pop(place, None)
            if place not in self._parts or self._parts[place][1] != content:
                self._parts[place] = (self.change, content)

    def since(self, mark: str) -> bytes:
        """Return what changed since a mark, as JSON; everything if the mark is unknown."""
        name, _, number = mark.partition(".")
        known = int(number) if name == self.name and number.isdecimal() else -1
        patch: dict[str, Any] = {
            "arms": {},
            "runs": {},
            "html": {},
            "gone": {"arms": [], "runs": []},
            "reset": known < 0,
        }
        for (kind, key), (change, content) in self._parts.items():
            if change > known:
                patch[kind][key] = msgspec.Raw(content)
        for (kind, key), change in self._gone.items():
            if change > known and kind in patch["gone"]:
                patch["gone"][kind].append(key)
        return msgspec.json.encode(patch)


def _pieces(data: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for kind in ("arms", "runs"):
        for key, value in data[kind].items():
            yield kind, key, value
    for name, text in fragments(data).items():
        yield "html", name, text
