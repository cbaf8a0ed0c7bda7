"""Which clients take part in a round, where not all do: a public draw that every client can recompute.

Units are drawn, and then assigned to shards. With fixed shards the units are shards that were drawn once, so that a
client is always summed with the same others. With batches they are the batches. When clients are resharded one by one,
each is a unit of its own, and two rounds may differ by a few clients: the leak meter counts what that reveals.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import final

from f2ed.core.errors import ConfigError
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.sharding.assignment import Assignment, ClientId, roster_hash
from f2ed.protocol.sharding.groups import Members, assign_groups, draw_groups
from f2ed.protocol.sharding.schedule import Batches, Fixed, Schedule
from f2ed.protocol.sharding.shuffle import drawn

__all__ = ["Sampling", "sample_groups"]


def sample_groups(
    groups: Sequence[Members], *, count: int, epoch: int, seed: bytes, roster: bytes
) -> tuple[Members, ...]:
    """Draw so many of the groups at random; `roster` is the hash of the list that they were made from."""
    if not 1 <= count <= len(groups):
        raise ConfigError(f"a sample of {count} of {len(groups)} groups; draw 1 to {len(groups)}")
    key = fields(b"f2ed sample 1", roster, unsigned(epoch), unsigned(count), seed)
    return tuple(groups[at] for at in sorted(drawn(count, len(groups), hashlib.sha256(key).digest())))


@final
class Sampling:
    """The shards of each round among a sample of the clients, with a new draw in every epoch.

    About `per_round` clients take part: with fixed shards or batches that do not divide evenly, a few more.
    """

    def __init__(
        self, roster: Mapping[ClientId, bytes], *, per_round: int, shards: int, schedule: Schedule, seed: bytes
    ) -> None:
        if not 1 <= shards <= per_round <= len(roster):
            raise ConfigError(
                f"{per_round} of {len(roster)} clients per round in {shards} shards; draw {shards} to {len(roster)}"
            )
        self._schedule, self._shards, self._seed = schedule, shards, seed
        self._roster = roster_hash(roster)
        self.units = _units(roster, per_round // shards, schedule, seed)
        """Who is drawn together or not at all."""
        self._count = _count(per_round, shards, schedule)

    def epoch(self, round_: int) -> int:
        """Return the epoch of a round, which has a sample of its own."""
        return round_ if isinstance(self._schedule, Fixed) else self._schedule(round_)

    def __call__(self, round_: int) -> Assignment:
        """Return the shards of a round."""
        epoch = self.epoch(round_)
        sample = sample_groups(self.units, count=self._count, epoch=epoch, seed=self._seed, roster=self._roster)
        return assign_groups(sample, shards=self._shards, epoch=epoch, seed=self._seed, roster=self._roster)


def _units(roster: Mapping[ClientId, bytes], size: int, schedule: Schedule, seed: bytes) -> tuple[Members, ...]:
    if isinstance(schedule, Fixed):
        return draw_groups(roster, count=len(roster) // size, seed=b"fixed shards" + seed)
    if isinstance(schedule, Batches):
        return draw_groups(roster, count=len(roster) // schedule.size, seed=b"batches" + seed)
    return tuple((client,) for client in sorted(roster))


def _count(per_round: int, shards: int, schedule: Schedule) -> int:
    if isinstance(schedule, Fixed):
        return shards
    if not isinstance(schedule, Batches):
        return per_round
    if (batches := per_round // schedule.size) < shards:
        raise ConfigError(
            f"{per_round} clients per round make {batches} batches of {schedule.size}, too few for {shards} shards; "
            f"use batches of at most {per_round // shards}, or fewer shards"
        )
    return batches
