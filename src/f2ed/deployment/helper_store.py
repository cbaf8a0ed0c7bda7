"""A helper's memory on disk: one file for each job and policy, written before a reply leaves.

A helper that answered a round twice would open two sums. So its state is locked while a request is answered, and
replaced durably before the reply is returned. A file that is missing is not made again by itself: `begin` makes it,
once, when the operator takes up the job.

The round under way, with the keys and seeds that open it, can be in another folder, in memory: it is written there
first, and counts once the file on the disk names it. After a restart of the machine it is gone, and the round with it.

With a transparency log, the memory holds the signed lines of its last step. They are in the memory first, then in the
log, and then the reply leaves: a crash in between leaves a log that lacks them, and the next request adds them. So no
reply leaves without its line, and no step has two.
"""

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import final

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.core.files import Lock, locked, write_atomic
from f2ed.deployment.helper_events import helper_events
from f2ed.deployment.transparency import LogFile, PlannedLines, write_line
from f2ed.deployment.transparency.lines import Event
from f2ed.protocol.helpers import JUDGE, Helper, begin_job, follow_job, respond_as_judge, respond_as_mixer
from f2ed.protocol.helpers.parted import joined, named_round, parted

__all__ = ["HelperStore"]

Entropy = Callable[[int], bytes]
"""Returns fresh bytes: `os.urandom`."""


@final
class _Memory(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="memory"):
    """A helper's file, where it keeps a log; without one the file is the state alone."""

    state: bytes
    lines: PlannedLines


@final
class HelperStore:
    """Answers requests to a helper from a folder that only its user may enter."""

    def __init__(
        self,
        folder: Path,
        helper: Helper,
        *,
        name: str = "",
        rounds: Path | None = None,
        log: LogFile | None = None,
    ) -> None:
        """Keep the job's state in a file of its own, or in the one of this name, which goes from job to job.

        `rounds` is the folder of the round under way; by default it is part of the file.
        """
        self._helper, self._rounds, self._log = helper, rounds, log
        self.line = b""
        """The newest line of the log, once a request is answered."""
        job = hashlib.sha256(helper.job.encode()).hexdigest()[:32]
        self.path = folder / (name or f"{helper.role}-{helper.policy.hex()[:16]}-{job}")

    def begin(self) -> None:
        """Take up the job: make its state; refuse where there is one."""
        with self._locked() as lock:
            if self.path.exists():
                raise ConfigError(f"{self.path} exists: this {self._helper.role} has taken up the job already")
            self._write(lock, begin_job(self._helper.policy, self._helper.job))

    def log_begun(self) -> None:
        """Write the first lines of the log, or those that a crash kept from it, so that a fault shows at the start."""
        with self._locked():
            self._read()
            if self._log is not None:
                self._log.append()

    def check(self) -> None:
        """Refuse to serve without a memory."""
        follow_job(self._read(), self._helper)

    def take_up(self) -> None:
        """Go on to this job, if the state is still of another one; refuse where there is none."""
        with self._locked() as lock:
            before = self._read()
            if (after := follow_job(before, self._helper)) != before:
                self._write(lock, after)

    def answer(self, request: bytes, entropy: Entropy) -> bytes:
        """Answer a request; the new state is on the disk before this returns."""
        respond = respond_as_judge if self._helper.role == JUDGE else respond_as_mixer
        with self._locked() as lock:
            before = self._read()
            found = respond(self._helper, before, request, entropy=entropy(32), half=entropy(32))
            events = () if self._log is None else helper_events(found)
            if found.state != before:
                self._write(lock, found.state, *events)
            elif self._log is not None:
                self.line = write_line(self._log.append(*events))
        return found.reply

    def _read(self) -> bytes:
        """Return the state, once the log holds all that the memory says."""
        stored = self.path.read_bytes() if self.path.exists() else b""
        memory = _memory(stored)
        if memory is not None:
            stored = memory.state
            if self._log is not None:
                self._log.complete(memory.lines)
        if not stored or not (name := named_round(stored)):
            return stored
        place = self._place(name)
        return joined(stored, place.read_bytes() if place.exists() else b"")

    def _write(self, lock: Lock, state: bytes, *events: Event) -> None:
        """Store a state; that of the round first, so that a crash leaves the old state or the new one, whole."""
        if self._log is None:
            self._store(lock, state, lambda lasting: lasting)
            return
        lines = self._log.plan(*events)
        self._store(lock, state, lambda lasting: msgspec.msgpack.encode(_Memory(lasting, lines)))
        self.line = write_line(self._log.complete(lines))

    def _store(self, lock: Lock, state: bytes, wrapped: Callable[[bytes], bytes]) -> None:
        if self._rounds is None:
            lock.write(self.path, wrapped(state))
            return
        lasting, under_way = parted(state)
        place = self._place(named_round(lasting))
        if under_way:
            self._rounds.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(place, under_way)
        lock.write(self.path, wrapped(lasting))
        for old in self._rounds.glob(f"{self.path.stem}-*.round*"):
            if old != place:
                old.unlink(missing_ok=True)

    def _place(self, name: bytes) -> Path:
        folder = self.path.parent if self._rounds is None else self._rounds
        return folder / f"{self.path.stem}-{name.hex()[:32]}.round"

    def _locked(self) -> AbstractContextManager[Lock]:
        return locked(self.path, remedy=f"stop the other process that serves as this {self._helper.role}")


def _memory(stored: bytes) -> _Memory | None:
    """Read a file with lines of a log; None for one without, whose state is read elsewhere."""
    try:
        return msgspec.msgpack.decode(stored, type=_Memory)
    except (ValueError, RecursionError):
        return None
