"""Shards: who is dealt where, when they are dealt anew, and what a number of shards guarantees."""

from f2ed.sharding.contamination import Contamination, contamination
from f2ed.sharding.guarantee import Guarantee, Region, guarantee
from f2ed.sharding.plan import ClientId, Plan, deal, roster_hash
from f2ed.sharding.planner import Advice, Change, advise
from f2ed.sharding.schedule import EveryKRounds, EveryRound, Fixed, Schedule
from f2ed.sharding.seed import combine, commit

__all__ = [
    "Advice",
    "Change",
    "ClientId",
    "Contamination",
    "EveryKRounds",
    "EveryRound",
    "Fixed",
    "Guarantee",
    "Plan",
    "Region",
    "Schedule",
    "advise",
    "combine",
    "commit",
    "contamination",
    "deal",
    "guarantee",
    "roster_hash",
]
