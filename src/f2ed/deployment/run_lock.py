"""One run at a time writes a checkpoint and its records; others read what it is doing, also while it waits."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, final

import msgspec

from f2ed.core.errors import BusyError
from f2ed.core.files import Held, StoredValue, is_held

__all__ = ["Note", "RunState", "read_state", "sole_run"]

_BRIEFLY = 0.3
"""Seconds to wait for a lock: a process that asks whether a run is alive holds it for a moment."""


@final
class RunState(msgspec.Struct, frozen=True):
    """What a run is doing."""

    run: int
    """Flower's id."""
    round: int
    """The round under way, counted from 1; 0 before the first."""
    waiting: str = ""
    """What the run waits for before it begins the round; empty while it leads one."""
    noted: str = ""
    """When this was written: UTC, ISO 8601."""
    skipped: int = 0
    """Attempts at this round that left the model unchanged; the record of the round has them once it is finished."""


class Note(Protocol):
    """Notes what the run is doing, for others to read."""

    def __call__(self, round_: int, waiting: str = "", skipped: int | None = None) -> None:
        """Note the round, counted from 1, what the run waits for, and how many attempts at it were skipped.

        Without a number of attempts the last one stands, as long as the round is the same.
        """


@contextmanager
def sole_run(files: Iterable[Path], run: int) -> Iterator[Note]:
    """Hold files for this run; give a function that notes its round, for others to read.

    Raises `BusyError` if another run holds one of them, `ConfigError` if their folder cannot be written.
    """
    with ExitStack() as stack:
        held = [stack.enter_context(_taken(path)) for path in sorted({_state_path(each) for each in files})]

        last = RunState(run, 0)

        def note(round_: int, waiting: str = "", skipped: int | None = None) -> None:
            nonlocal last
            noted = datetime.now(UTC).isoformat(timespec="seconds")
            known = last.skipped if last.round == round_ else 0
            last = RunState(run, round_, waiting, noted, known if skipped is None else skipped)
            for each in held:
                each.write(last)

        note(0)
        yield note


def read_state(file: Path) -> tuple[RunState | None, bool]:
    """Return what the last run that held a checkpoint or records was doing, and whether it still holds them."""
    path = _state_path(file)
    return _stored(path).read(), is_held(path)


def _state_path(file: Path) -> Path:
    # The whole name, not the stem: the server's log beside them has a lock of its own.
    return file.with_name(f"{file.name}.run")


def _stored(path: Path) -> StoredValue[RunState]:
    return StoredValue(path, RunState, "the run", repair="delete it", remedy="name another checkpoint and records")


@contextmanager
def _taken(path: Path) -> Iterator[Held[RunState]]:
    stored = _stored(path)
    with ExitStack() as stack:
        try:
            held = stack.enter_context(stored.hold(wait=_BRIEFLY))
        except BusyError:
            other = stored.read()
            if other is None:
                raise
            raise BusyError(
                f"the run {other.run} is using the checkpoint or the records beside {path}, and is in round "
                f"{other.round}; wait until it has finished, stop it, or name other files"
            ) from None
        yield held
