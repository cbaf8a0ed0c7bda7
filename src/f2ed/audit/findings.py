"""A measured number of the audit, with what guessing gives, what a server without shards gets, and how sure it is."""

from collections.abc import Callable, Sequence
from typing import Literal, final

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Attack", "Course", "Finding", "Interval", "interval_of", "interval_of_mean"]

Attack = Literal["inversion", "optimization", "labels", "membership", "disaggregation", "inconsistency"]

_DRAWS = 1000


class Interval(msgspec.Struct, frozen=True):
    """A number and its 95 % interval, by drawing the observations anew with replacement (bootstrap)."""

    value: float
    low: float
    high: float
    count: int
    """Observations it rests on."""


@final
class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one attack reaches in one setting."""

    attack: Attack
    metric: str
    shard: int
    """Members of the shard."""
    setting: str = ""
    """What else tells this finding from others."""
    rounds: int = 1
    found: Interval
    guess: float | None = None
    """What one reaches without seeing anything; None where that has no meaning."""
    plain: float | None = None
    """What a server reaches that sees each update by itself."""


@final
class Course(msgspec.Struct, frozen=True, kw_only=True):
    """What the sums of a schedule determine after each round: exact, so that there is no interval."""

    setting: str
    clients: int
    ranks: tuple[int, ...]
    """Independent equations that the server has."""
    exposed: tuple[int, ...]
    """Clients whose own update they determine."""


def interval_of_mean(values: ArrayLike, rng: np.random.Generator) -> Interval:
    """Return the mean of the values and its interval."""
    observed = np.asarray(values, dtype=np.float64)
    return interval_of((observed,), lambda some: float(some.mean()), rng)


def interval_of(
    samples: Sequence[NDArray[np.float64]], statistic: Callable[..., float], rng: np.random.Generator
) -> Interval:
    """Return a statistic of one or more samples and its interval; each sample is drawn anew by itself."""
    drawn = [
        statistic(*(sample[rng.integers(len(sample), size=len(sample))] for sample in samples)) for _ in range(_DRAWS)
    ]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Interval(statistic(*samples), float(low), float(high), sum(map(len, samples)))
