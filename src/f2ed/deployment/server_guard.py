"""The file of what a server with helpers remembers from round to round: survivors and strikes of an epoch.

The server applies the survivor guard to its own memory, as mixer and judge do to theirs. So the memory is on the disk
before a round begins, and again before the sum can be opened; a file from a backup shows by the rounds that it lacks.
"""

from pathlib import Path
from typing import final

import msgspec

from f2ed.core.errors import Refusal
from f2ed.core.files import StoredValue
from f2ed.protocol.helpers import ServerGuard, Terms
from f2ed.protocol.sharding import ClientId

__all__ = ["GuardFile"]


@final
class _Memory(msgspec.Struct, frozen=True):
    epoch: int
    round: int
    """The last one that this server has begun."""
    kept: tuple[ClientId, ...] | None = None
    struck: tuple[ClientId, ...] = ()


@final
class GuardFile(msgspec.Struct, frozen=True):
    """The file in which a server keeps its part of the guard, over all runs of a federation."""

    path: Path

    def begin(self, terms: Terms, known: ServerGuard) -> ServerGuard:
        """Return what counts in a round that begins, and record that it does; or refuse it.

        `known` is what a checkpoint says. Survivors that only one of the two knows count.
        """
        with self._stored.hold() as held:
            before = held.before
            if before is not None:
                _check_round(terms, before)
            guard = _merged(terms, before, known.within(terms.epoch))
            held.write(_Memory(terms.epoch, terms.round, guard.kept, guard.struck))
        return guard

    def remember(self, terms: Terms, kept: tuple[ClientId, ...], struck: tuple[ClientId, ...]) -> None:
        """Record survivors and strikes of the round under way, before its sum can be opened."""
        with self._stored.hold() as held:
            before = held.before
            if before is None or (before.epoch, before.round) != (terms.epoch, terms.round):
                raise Refusal(f"{self.path} was replaced while round {terms.round} was under way; its sum stays closed")
            every = tuple(sorted({*before.struck, *struck}))
            held.write(msgspec.structs.replace(before, kept=kept, struck=every))

    @property
    def _stored(self) -> StoredValue[_Memory]:
        return StoredValue(
            self.path,
            _Memory,
            what="what the server remembers of survivors",
            repair="restore it, or remove it and wait until the next epoch",
            remedy="stop the other server of this federation",
        )


def _check_round(terms: Terms, before: _Memory) -> None:
    if (before.epoch, before.round) >= (terms.epoch, terms.round):
        raise Refusal(
            f"round {terms.round} is not after round {before.round}, which this server has begun; its checkpoint is an "
            "old copy, or another server of this federation is at work"
        )
    if terms.step and before.epoch == terms.epoch and before.round < terms.round - 1:
        raise Refusal(
            f"the server's memory of survivors ends with round {before.round}, and round {terms.round} would follow: "
            "it is an old copy, or another server led rounds of this epoch. The next epoch begins with round "
            f"{(terms.epoch + 1) * terms.epoch_rounds}"
        )


def _merged(terms: Terms, before: _Memory | None, known: ServerGuard) -> ServerGuard:
    """Return what both memories of this epoch demand."""
    if before is None or before.epoch != terms.epoch:
        return known
    struck = tuple(sorted({*before.struck, *known.struck}))
    sets = [set(each) for each in (before.kept, known.kept) if each is not None]
    if not sets or terms.groups:
        return ServerGuard(terms.epoch, before.kept or known.kept, struck)
    fewest = min(sets, key=len)
    if not all(fewest <= each for each in sets):
        raise Refusal(
            "the server's memory of survivors and its checkpoint know different ones of the same epoch; one of them is "
            "a copy from elsewhere"
        )
    return ServerGuard(terms.epoch, tuple(sorted(fewest)), struck)
