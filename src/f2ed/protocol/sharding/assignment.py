"""Which clients share a shard: a public function of the roster, the epoch and a seed that nobody chose.

Every client recomputes the assignment and refuses any other, so no server can put a victim among accomplices.
"""

import hashlib
from collections.abc import Mapping
from typing import Protocol, final

import msgspec

from f2ed.core.errors import ConfigError, Refusal
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.sharding.shuffle import shuffled

__all__ = ["AssignShards", "Assignment", "ClientId", "assign_shards", "roster_hash"]

ClientId = int
"""An unsigned number of 64 bits: Flower's node ids, or 0 … n - 1 in a simulation."""


class AssignShards(Protocol):
    """Assigns clients to shards: `assign_shards`, or the `assign` of a schedule that keeps some clients together."""

    def __call__(
        self, roster: Mapping[ClientId, bytes], *, shards: int, epoch: int, seed: bytes, min_size: int = 1
    ) -> "Assignment":
        """Assign the clients of a roster for one epoch."""
        ...


@final
class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """The shards of one epoch; the members of a shard are in ascending order."""

    shards: tuple[tuple[ClientId, ...], ...]
    epoch: int
    seed: bytes
    roster: bytes
    """SHA-256 of the roster; see `roster_hash`."""

    def shard_of(self, client: ClientId) -> int:
        """Return the index of a client's shard."""
        for index, members in enumerate(self.shards):
            if client in members:
                return index
        raise ConfigError(f"client {client} is in none of the {len(self.shards)} shards; is it on the roster?")

    def name(self, shard: int) -> str:
        """Return a name that a shard keeps as long as its members stay the same."""
        members = ",".join(map(str, self.shards[shard]))
        return hashlib.sha256(members.encode()).hexdigest()[:16]

    def verify(
        self,
        roster: Mapping[ClientId, bytes],
        *,
        shards: int,
        epoch: int,
        seed: bytes,
        min_size: int = 1,
        assign: AssignShards | None = None,
    ) -> None:
        """Refuse any assignment but the one that follows from what the client itself knows.

        All arguments must come from the client's own settings, its own count of rounds and the seed it helped to
        draw, never from the party that sent the assignment. `assign` is `assign_shards`, or the agreed schedule's.
        """
        if (smallest := min(map(len, self.shards), default=0)) < min_size:
            raise Refusal(f"a shard of {smallest} members; this client requires at least {min_size}")
        mine = (assign or assign_shards)(roster, shards=shards, epoch=epoch, seed=seed)
        for what, found, wanted in (
            ("roster", self.roster.hex(), mine.roster.hex()),
            ("epoch", self.epoch, mine.epoch),
            ("public seed", self.seed.hex(), mine.seed.hex()),
            ("number of shards", len(self.shards), len(mine.shards)),
        ):
            if found != wanted:
                raise Refusal(f"the assignment is for another {what}: {found}, and this client has {wanted}")
        if self.shards != mine.shards:
            wrong = next(i for i, (a, b) in enumerate(zip(self.shards, mine.shards, strict=True)) if a != b)
            raise Refusal(
                f"shard {wrong} is not the one that the roster, the epoch and the seed give; "
                "somebody chose its members, so this client does not take part"
            )


def assign_shards(
    roster: Mapping[ClientId, bytes], *, shards: int, epoch: int, seed: bytes, min_size: int = 1
) -> Assignment:
    """Assign the clients at random to shards whose sizes differ by at most one, the larger ones first.

    The roster gives each client's identity key (empty bytes where a simulation has none). No shard may have
    fewer than `min_size` members.
    """
    _check_sizes(len(roster), shards, min_size)
    digest = roster_hash(roster)
    key = fields(b"f2ed deal 1", digest, unsigned(epoch), unsigned(shards), seed)
    # Shuffle positions, not ids: Flower's 64-bit ids do not survive a trip through an array.
    ids = sorted(roster)
    order = [ids[position] for position in shuffled(len(ids), hashlib.sha256(key).digest())]
    return Assignment(shards=_cut(order, shards), epoch=epoch, seed=seed, roster=digest)


def roster_hash(roster: Mapping[ClientId, bytes]) -> bytes:
    """Return SHA-256 of the clients and their keys, in ascending order of their ids."""
    parts = (part for client in sorted(roster) for part in (unsigned(client), roster[client]))
    return hashlib.sha256(fields(b"f2ed roster 1", *parts)).digest()


def _cut(order: list[ClientId], shards: int) -> tuple[tuple[ClientId, ...], ...]:
    size, larger = divmod(len(order), shards)
    ends = [(index + 1) * size + min(index + 1, larger) for index in range(shards)]
    return tuple(tuple(sorted(order[start:end])) for start, end in zip([0, *ends], ends, strict=False))


def _check_sizes(clients: int, shards: int, min_size: int) -> None:
    if shards < 1:
        raise ConfigError(f"{shards} shards; use at least 1")
    if min_size < 1:
        raise ConfigError(f"a minimum shard size of {min_size}; use at least 1")
    if clients < shards * min_size:
        most = clients // min_size
        fix = f"use at most {most} shards" if most else f"wait for at least {min_size} clients"
        raise ConfigError(
            f"{clients} clients in {shards} shards leave one with {clients // shards}, fewer than {min_size}; {fix}"
        )
