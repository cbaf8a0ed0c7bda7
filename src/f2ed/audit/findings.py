"""Results of the audit: a number with its confidence interval, and two baselines (guessing, and no shards)."""

from collections.abc import Callable, Sequence
from typing import Literal, final

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Attack", "Finding", "Interval", "RankHistory", "interval_of", "interval_of_mean"]

Attack = Literal["inversion", "optimization", "labels", "membership", "disaggregation", "inconsistency"]

_DRAWS = 1000


class Interval(msgspec.Struct, frozen=True):
    """A number and its 95 % bootstrap interval."""

    value: float
    low: float
    high: float
    count: int
    """Number of observations."""


@final
class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one attack in one setting."""

    attack: Attack
    metric: str
    shard: int
    """Shard size."""
    setting: str = ""
    """What else distinguishes this finding from others."""
    rounds: int = 1
    found: Interval
    guess: float | None = None
    """The result of guessing, without having seen the shard; None where that has no meaning."""
    plain: float | None = None
    """The result of a server without shards, which sees each update."""


@final
class RankHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What the opened sums of a schedule determine after each round; exact, hence without interval."""

    setting: str
    clients: int
    ranks: tuple[int, ...]
    """Independent equations that the server holds."""
    exposed: tuple[int, ...]
    """Clients whose update they determine."""


def interval_of_mean(values: ArrayLike, rng: np.random.Generator) -> Interval:
    """Return the mean of the values and its interval."""
    observed = np.asarray(values, dtype=np.float64)
    return interval_of((observed,), lambda some: float(some.mean()), rng)


def interval_of(
    samples: Sequence[NDArray[np.float64]], statistic: Callable[..., float], rng: np.random.Generator
) -> Interval:
    """Return a statistic of one or more samples and its interval; each sample is resampled separately."""
    drawn = [
        statistic(*(sample[rng.integers(len(sample), size=len(sample))] for sample in samples)) for _ in range(_DRAWS)
    ]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Interval(statistic(*samples), float(low), float(high), sum(map(len, samples)))
