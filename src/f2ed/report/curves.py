"""Curves over the rounds: the mean over the seeds of an arm, between the lowest and the highest."""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import final

import msgspec

from f2ed.records import RoundRecord
from f2ed.records.intake import RecordedRun

__all__ = ["Curve", "Read", "accuracy", "curve", "loss", "success"]

Read = Callable[[RoundRecord], float | None]


@final
class Curve(msgspec.Struct, frozen=True):
    """One value per round; None, a gap in the line, where no seed has a number."""

    rounds: tuple[int, ...]
    mean: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]

    @property
    def last(self) -> int:
        """The last round there is."""
        return self.rounds[-1]

    def at(self, moment: int) -> float | None:
        """Return the mean at a round, or at the last one before it that has a number."""
        backwards = zip(self.rounds[::-1], self.mean[::-1], strict=True)
        return next((value for round_, value in backwards if round_ <= moment and value is not None), None)


def accuracy(record: RoundRecord) -> float | None:
    """Return the accuracy after a round."""
    return record.accuracy


def loss(record: RoundRecord) -> float | None:
    """Return the loss on the test data after a round."""
    return record.loss


def success(record: RoundRecord) -> float | None:
    """Return the success rate of a targeted attack, over inputs whose true label is not the target."""
    return record.success


def curve(runs: Sequence[RecordedRun], read: Read) -> Curve | None:
    """Return a number over the rounds of runs that differ in the seed alone; None where no round has it.

    A seed that is still running, or of which other rounds were kept, is left out of rounds that it lacks.
    """
    found: dict[int, list[float]] = {}
    for run in runs:
        for record in run.rounds:
            values = found.setdefault(record.round, [])
            if (value := read(record)) is not None and isfinite(value):
                values.append(value)
    if not any(found.values()):
        return None
    rounds = tuple(sorted(found))
    several = [found[round_] for round_ in rounds]
    return Curve(
        rounds,
        tuple(sum(values) / len(values) if values else None for values in several),
        tuple(min(values, default=None) for values in several),
        tuple(max(values, default=None) for values in several),
    )
