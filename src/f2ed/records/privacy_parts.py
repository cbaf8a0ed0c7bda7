"""Parts of records about privacy: what rounds would reveal, what they revealed, and the noise."""

from typing import final

import msgspec

__all__ = ["LeakForecast", "LeakReading", "NoiseRecord"]


@final
class LeakForecast(msgspec.Struct, frozen=True, kw_only=True):
    """What the planned rounds would reveal about single clients, computed before the first round."""

    exposed: int
    """Clients whose own update the opened sums would determine."""
    first: int | None
    """The number of rounds after which the first of them is determined."""
    last: int | None
    """The number of rounds after which every client is determined; None if some never are."""
    crowd: int
    """The smallest group of clients whose sum would be determined."""
    cosine: float
    """Between the server's best linear guess and the round-invariant component of a client's update."""
    leaks: bool
    """Whether a client is determined, or every client is hidden no better than in a crowd of two."""
    ever: int | msgspec.UnsetType = msgspec.UNSET
    """How many clients there ever were, where some left."""


@final
class LeakReading(msgspec.Struct, frozen=True, kw_only=True):
    """What the sums opened so far reveal, measured after a round."""

    rank: int
    """Independent equations that the server holds."""
    exposed: int
    """Clients whose round-invariant component these determine."""
    first: int | None
    """The number of rounds after which the first of them was determined."""
    crowd: int
    """The smallest group of clients whose sum is determined."""


@final
class NoiseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The noise for differential privacy that shard means carry; standard deviations in units of the update."""

    noise_multiplier: float
    delta: float
    clip_norm: float
    shard: float
    """Standard deviation of one coordinate of a shard mean."""
    shard_norm: float
    """Expected norm of the noise in a shard mean, to compare with `clip_norm`."""
    colluders: int = 0
    """Shard members assumed to help the server."""
