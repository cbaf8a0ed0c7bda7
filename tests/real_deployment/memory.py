"""Looks for plain updates: in memory, in files, in what was sent."""

import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "app"))

from sums.task import MARK, START, STEP, steps

_PIECE = 1 << 26
_PAGE = os.sysconf("SC_PAGE_SIZE")
_BEHIND = 8


class Plain(NamedTuple):
    """Whose update was found, of which round, and in which form."""

    client: int
    round: int
    form: str


FORMS = {
    "update": lambda whole: (whole * STEP).astype("<f4"),
    "update in float64": lambda whole: (whole * STEP).astype("<f8"),
    "trained model": lambda whole: (START + whole * STEP).astype("<f4"),
    "fixed point": lambda whole: whole.astype("<i4"),
    "fixed point in 64 bits": lambda whole: whole.astype("<i8"),
}


class Search:
    """Knows what the updates of some clients and rounds look like."""

    def __init__(self, clients, rounds):
        self._marks = {}
        self._behind = defaultdict(dict)
        for form, write in FORMS.items():
            for client in clients:
                for round_ in rounds:
                    whole = steps(client, round_)
                    self._marks[form] = write(whole[MARK]).tobytes()
                    following = write(whole[MARK.stop : MARK.stop + _BEHIND]).tobytes()
                    self._behind[form][following] = Plain(client, round_, form)
        self._longest = max(len(mark) + 8 * _BEHIND for mark in self._marks.values())

    def in_bytes(self, data):
        """Return all that is found."""
        found = set()
        for form, mark in self._marks.items():
            place = data.find(mark)
            while place >= 0:
                behind = place + len(mark)
                length = len(next(iter(self._behind[form])))
                hit = self._behind[form].get(bytes(data[behind : behind + length]))
                found |= {hit} if hit else set()
                place = data.find(mark, place + 1)
        return found

    def in_file(self, path):
        return self.in_bytes(path.read_bytes())

    def in_process(self, pid):
        """Search all memory that a process has written to; one that has ended has none."""
        found = set()
        try:
            with (
                Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory,
                Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pages,
            ):
                for begin, end in _written(pid, pages):
                    found |= self._in_region(memory, begin, end)
        except (FileNotFoundError, ProcessLookupError):
            return found
        return found

    def _in_region(self, memory, begin, end):
        found, place = set(), begin
        while place < end:
            try:
                memory.seek(place)
                found |= self.in_bytes(memory.read(min(_PIECE, end - place)))
            except OSError:  # A region of a device, or one that is gone.
                return found
            place += _PIECE - self._longest if end - place > _PIECE else _PIECE
        return found


def _written(pid, pages):
    """Yield the pieces of a process's memory that it may write and has: much of what is mapped never was."""
    for region in Path(f"/proc/{pid}/maps").read_text().splitlines():
        place, rights, *_ = region.split()
        if not rights.startswith("rw"):
            continue
        begin, end = (int(each, 16) // _PAGE for each in place.split("-"))
        pages.seek(8 * begin)
        entries = np.frombuffer(pages.read(8 * (end - begin)), np.uint64)
        there = np.flatnonzero(entries >> np.uint64(62))  # In memory, or swapped out.
        for run in np.split(there, np.flatnonzero(np.diff(there) > 1) + 1):
            if len(run):
                yield (begin + int(run[0])) * _PAGE, (begin + int(run[-1]) + 1) * _PAGE
