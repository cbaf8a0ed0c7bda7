"""How a measure went over the rounds: its mean over the seeds of an arm, between the lowest and the highest."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import final

import msgspec

from f2ed.records import RoundRecord
from f2ed.report.reading import Run

__all__ = ["Curve", "accuracy", "curve", "success"]


@final
class Curve(msgspec.Struct, frozen=True):
    """One value per round; where seeds are missing a round, over those that have it."""

    rounds: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def last(self) -> int:
        """The last round there is."""
        return self.rounds[-1]

    def at(self, moment: int) -> float | None:
        """Return the mean at a round, or at the last one before it; None where there is none."""
        return next((value for at, value in zip(self.rounds[::-1], self.mean[::-1], strict=True) if at <= moment), None)


def accuracy(record: RoundRecord) -> float | None:
    """Return the accuracy after a round."""
    return record.accuracy


def success(record: RoundRecord) -> float | None:
    """Return how far a targeted attack has got, over inputs whose true label is another."""
    return record.success


def curve(runs: Sequence[Run], measure: Callable[[RoundRecord], float | None]) -> Curve | None:
    """Return the curve of a measure over runs that differ in their seed alone; None where nothing was measured."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    for run in runs:
        for record in run.rounds:
            if (value := measure(record)) is not None:
                found[record.round].append(value)
    if not found:
        return None
    rounds = tuple(sorted(found))
    values = [found[at] for at in rounds]
    return Curve(
        rounds, tuple(sum(some) / len(some) for some in values), tuple(map(min, values)), tuple(map(max, values))
    )
