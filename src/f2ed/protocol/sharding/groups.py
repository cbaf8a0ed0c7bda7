"""Groups: clients that always share a shard, so that no sum smaller than a group can be solved for."""

from collections.abc import Mapping, Sequence

from f2ed.core.errors import ConfigError
from f2ed.protocol.sharding.assignment import Assignment, ClientId, assign_shards

__all__ = ["Members", "assign_groups", "draw_groups", "min_union"]

Members = tuple[ClientId, ...]


def draw_groups(clients: Mapping[ClientId, bytes], *, count: int, seed: bytes) -> tuple[Members, ...]:
    """Draw so many groups at random; their sizes differ by at most one. The keys are part of the draw."""
    if not 1 <= count <= len(clients):
        raise ConfigError(f"{len(clients)} clients make no {count} groups; draw 1 to {len(clients)}")
    return assign_shards(clients, shards=count, epoch=0, seed=seed).shards


def assign_groups(
    groups: Sequence[Members], *, shards: int, epoch: int, seed: bytes, roster: bytes, min_size: int = 1
) -> Assignment:
    """Assign whole groups to the shards of an epoch; `roster` is the hash of the list that they were drawn from.

    Shards differ by one group at most.
    """
    if not 1 <= shards <= len(groups):
        raise ConfigError(f"{len(groups)} groups for {shards} shards; use 1 to {len(groups)} shards")
    whole = assign_shards(dict.fromkeys(range(len(groups)), roster), shards=shards, epoch=epoch, seed=seed)
    members = tuple(tuple(sorted(client for at in shard for client in groups[at])) for shard in whole.shards)
    if (smallest := min(map(len, members))) < min_size:
        raise ConfigError(f"a shard of {smallest} members, fewer than {min_size}; use fewer shards")
    return Assignment(shards=members, epoch=epoch, seed=seed, roster=roster)


def min_union(groups: Sequence[Members], shards: int) -> int:
    """Return the number of members that the smallest shard of these groups may have, in any epoch."""
    return sum(sorted(map(len, groups))[: len(groups) // shards]) if groups and shards else 0
