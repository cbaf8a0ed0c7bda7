"""Shards: which clients share one, and when they are resharded."""

from f2ed.protocol.sharding.assignment import Assignment, AssignShards, ClientId, assign_shards, roster_hash
from f2ed.protocol.sharding.chain import chain_head, chain_link, check_link
from f2ed.protocol.sharding.groups import Members, assign_groups, draw_groups, min_union
from f2ed.protocol.sharding.public_seed import combine, commit
from f2ed.protocol.sharding.sampling import Sampling, sample_groups
from f2ed.protocol.sharding.schedule import Batches, EveryKRounds, EveryRound, Fixed, Schedule

__all__ = [
    "AssignShards",
    "Assignment",
    "Batches",
    "ClientId",
    "EveryKRounds",
    "EveryRound",
    "Fixed",
    "Members",
    "Sampling",
    "Schedule",
    "assign_groups",
    "assign_shards",
    "chain_head",
    "chain_link",
    "check_link",
    "combine",
    "commit",
    "draw_groups",
    "min_union",
    "roster_hash",
    "sample_groups",
]
