"""The cost of noise in numbers that a person can weigh: its size beside the clip, and the epsilon that it buys."""

from math import sqrt
from typing import final

import msgspec

from f2ed.protocol.dp.accountant import dp_epsilon, rho
from f2ed.protocol.dp.noise import Noise
from f2ed.protocol.quantization.encoding import Encoding

__all__ = ["NoiseCost", "noise_cost", "privacy_cost"]


@final
class NoiseCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of noise for one federation. Deviations are standard deviations of one coordinate, in float units."""

    noise_multiplier: float
    delta: float
    clip_norm: float
    coordinates: int
    members: int
    """Of the smallest shard."""
    carriers: int
    """Honest members of the smallest sum that may be opened: the noise that is counted on is theirs."""
    shards: int
    sensitivity: float
    """The largest norm of an encoded update: the clip norm, and what rounding may add to it."""
    client_deviation: float
    """Of what one client adds to its update."""
    sum_deviation: float
    """Of the smallest sum that may be opened, without the noise of colluders."""
    shard_deviation: float
    """Of a shard's mean when all of its members take part."""
    mean_deviation: float
    """Of the mean of all shards."""
    central_deviation: float
    """Of the mean of all clients if a trusted server added the noise, for the same epsilon."""
    rounds: int
    dp_epsilon_round: float
    """Of one round."""
    dp_epsilon: float
    """Of a client that is opened in every round, in the smallest sums."""
    dp_epsilon_full: float
    """The same if nobody ever drops out."""
    helpers: int
    dp_epsilon_helped: float
    """As `dp_epsilon`, if this many members of its shard help the server, beyond those that the terms allow for."""

    @property
    def shard_norm(self) -> float:
        """The norm of the noise in a shard's mean."""
        return self.shard_deviation * sqrt(self.coordinates)

    @property
    def mean_norm(self) -> float:
        """The norm of the noise in the mean of all shards."""
        return self.mean_deviation * sqrt(self.coordinates)


def privacy_cost(
    encoding: Encoding, *, coordinates: int, survivors: int, colluders: int = 0, clear: bool = False
) -> float | None:
    """Return the zCDP rho that an opened sum costs each of its members; None without noise.

    A client that does not know yet who will survive passes the minimum that its terms allow. In the clear the server
    sees each update with its own noise alone.
    """
    if not encoding.deviation:
        return None
    return rho(
        sensitivity=encoding.sensitivity(coordinates),
        deviation=encoding.deviation,
        honest=1 if clear else max(1, survivors - colluders),
        coordinates=coordinates,
    )


def noise_cost(
    noise: Noise,
    encoding: Encoding,
    *,
    coordinates: int,
    members: int,
    carriers: int,
    shards: int,
    rounds: int,
    colluders: int = 0,
    helpers: int = 0,
    clear: bool = False,
) -> NoiseCost:
    """Compute what noise costs; raise `ConfigError` where it does not fit the encoding."""
    noisy = encoding.noisy(noise.noise_multiplier, coordinates=coordinates, carriers=carriers)
    noisy.ring_for(members)
    client = noisy.deviation * encoding.unit

    def epsilon(honest: int, openings: int = rounds) -> float:
        cost = privacy_cost(noisy, coordinates=coordinates, survivors=honest, clear=clear)
        return dp_epsilon(openings * (cost or 0.0), noise.delta)

    return NoiseCost(
        noise_multiplier=noise.noise_multiplier,
        delta=noise.delta,
        clip_norm=encoding.clip_norm,
        coordinates=coordinates,
        members=members,
        carriers=carriers,
        shards=shards,
        sensitivity=encoding.sensitivity(coordinates) * encoding.unit,
        client_deviation=client,
        sum_deviation=client * sqrt(carriers),
        shard_deviation=client / sqrt(members),
        mean_deviation=client / sqrt(members) / sqrt(shards),
        central_deviation=noise.noise_multiplier * encoding.clip_norm / (members * shards),
        rounds=rounds,
        dp_epsilon_round=epsilon(carriers, 1),
        dp_epsilon=epsilon(carriers),
        dp_epsilon_full=epsilon(members - colluders),
        helpers=helpers,
        dp_epsilon_helped=epsilon(carriers - helpers),
    )
