"""One run at a time writes a checkpoint and its records; a second one is told which round the first is in."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import final

import msgspec

from f2ed.core.errors import BusyError
from f2ed.core.files import Held, StoredValue

__all__ = ["sole_run"]


@final
class _Run(msgspec.Struct, frozen=True):
    run: int
    """Flower's id."""
    round: int
    """The round under way, counted from 1; 0 before the first."""


@contextmanager
def sole_run(files: Iterable[Path], run: int) -> Iterator[Callable[[int], None]]:
    """Hold files for this run; give a function that notes its round, for others to read.

    Raises `BusyError` if another run holds one of them, `ConfigError` if their folder cannot be written.
    """
    with ExitStack() as stack:
        # The whole name, not the stem: the server's log beside them has a lock of its own.
        held = [
            stack.enter_context(_taken(path)) for path in sorted({each.with_name(f"{each.name}.run") for each in files})
        ]

        def note(round_: int) -> None:
            for each in held:
                each.write(_Run(run, round_))

        note(0)
        yield note


@contextmanager
def _taken(path: Path) -> Iterator[Held[_Run]]:
    stored = StoredValue(path, _Run, "the run", repair="delete it", remedy="name another checkpoint and records")
    with ExitStack() as stack:
        try:
            held = stack.enter_context(stored.hold(wait=0))
        except BusyError:
            other = stored.read()
            if other is None:
                raise
            raise BusyError(
                f"the run {other.run} is using the checkpoint or the records beside {path}, and is in round "
                f"{other.round}; wait until it has finished, stop it, or name other files"
            ) from None
        yield held
