"""Shards: which clients share one, and when they are assigned again."""

from f2ed.protocol.sharding.assignment import ClientId, Dealing, Plan, deal, roster_hash
from f2ed.protocol.sharding.public_seed import combine, commit
from f2ed.protocol.sharding.schedule import Batches, EveryKRounds, EveryRound, Fixed, Schedule

__all__ = [
    "Batches",
    "ClientId",
    "Dealing",
    "EveryKRounds",
    "EveryRound",
    "Fixed",
    "Plan",
    "Schedule",
    "combine",
    "commit",
    "deal",
    "roster_hash",
]
