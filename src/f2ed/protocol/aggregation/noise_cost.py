"""What noise costs, in numbers that a person can weigh: its size beside the clip, and the epsilon that it buys."""

from math import sqrt
from typing import final

import msgspec

from f2ed.protocol.aggregation.task import Protocol
from f2ed.protocol.dp.accountant import epsilon, rho
from f2ed.protocol.dp.noise import Noise
from f2ed.protocol.quantization.encoding import Encoding

__all__ = ["Price", "price"]

_PLAIN = Protocol()


@final
class Price(msgspec.Struct, frozen=True, kw_only=True):
    """The price of noise for one federation. Deviations are standard deviations of one coordinate; all are floats."""

    multiplier: float
    delta: float
    clip_norm: float
    """The clip of an update's norm."""
    coordinates: int
    members: int
    """Of the smallest shard."""
    carriers: int
    """How many honest members the smallest sum that may be opened has: their noise is what is counted on."""
    shards: int
    sensitivity: float
    """The longest encoded update: the clip, and what rounding may add to it."""
    client: float
    """Deviation of what one client adds to its update."""
    stated: float
    """Deviation in the smallest sum that may be opened, without the noise of colluders."""
    shard: float
    """Deviation in a shard's mean when all of its members are there."""
    overall: float
    """Deviation in the mean of all shards."""
    central: float
    """Deviation that a trusted server would add to the mean of all clients, for the same epsilon."""
    rounds: int
    once: float
    """Epsilon of one round."""
    epsilon: float
    """Epsilon of a client that is opened in every round, in the smallest sums."""
    epsilon_all: float
    """The same where nobody ever drops out."""
    helpers: int
    epsilon_helped: float
    """The same as `epsilon` if so many members of its shard help the server, beyond those that the terms allow for."""

    @property
    def shard_norm(self) -> float:
        """The length of the noise in a shard's mean."""
        return self.shard * sqrt(self.coordinates)

    @property
    def overall_norm(self) -> float:
        """The length of the noise in the mean of all shards."""
        return self.overall * sqrt(self.coordinates)


def price(
    noise: Noise,
    encoding: Encoding,
    *,
    coordinates: int,
    members: int,
    shards: int,
    rounds: int,
    protocol: Protocol = _PLAIN,
    helpers: int = 0,
) -> Price:
    """Work out what noise comes to; raise `ConfigError` where it does not fit the encoding."""
    mode = protocol.mode_for(members)
    carriers = max(1, protocol.quorum_for(mode, members)[1] - protocol.colluders)
    noisy = encoding.noisy(noise.multiplier, coordinates=coordinates, carriers=carriers)
    noisy.ring_for(members)
    sensitivity = encoding.sensitivity(coordinates)

    def loss(honest: int) -> float:
        return rho(sensitivity=sensitivity, deviation=noisy.deviation, honest=honest, coordinates=coordinates)

    client = noisy.deviation * encoding.unit
    shard = client / sqrt(members)
    return Price(
        multiplier=noise.multiplier,
        delta=noise.delta,
        clip_norm=encoding.clip_norm,
        coordinates=coordinates,
        members=members,
        carriers=carriers,
        shards=shards,
        sensitivity=sensitivity * encoding.unit,
        client=client,
        stated=client * sqrt(carriers),
        shard=shard,
        overall=shard / sqrt(shards),
        central=noise.multiplier * encoding.clip_norm / (members * shards),
        rounds=rounds,
        once=epsilon(loss(carriers), noise.delta),
        epsilon=epsilon(rounds * loss(carriers), noise.delta),
        epsilon_all=epsilon(rounds * loss(max(1, members - protocol.colluders)), noise.delta),
        helpers=helpers,
        epsilon_helped=epsilon(rounds * loss(max(1, carriers - helpers)), noise.delta),
    )
