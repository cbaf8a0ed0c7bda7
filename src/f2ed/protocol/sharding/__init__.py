"""Shards: which clients share one, and when they are resharded."""

from f2ed.protocol.sharding.assignment import Assignment, AssignShards, ClientId, assign_shards, roster_hash
from f2ed.protocol.sharding.public_seed import combine, commit
from f2ed.protocol.sharding.schedule import Batches, EveryKRounds, EveryRound, Fixed, Schedule

__all__ = [
    "AssignShards",
    "Assignment",
    "Batches",
    "ClientId",
    "EveryKRounds",
    "EveryRound",
    "Fixed",
    "Schedule",
    "assign_shards",
    "combine",
    "commit",
    "roster_hash",
]
