"""Shards: who is dealt where, when they are dealt anew, and what a number of shards guarantees."""

from f2ed.sharding.contamination import Contamination, contamination
from f2ed.sharding.exposure import Exposure, Meter, exposure
from f2ed.sharding.guarantee import Guarantee, Region, guarantee
from f2ed.sharding.leak import Leak, leak, recovered_cosine, safe_k, smallest_k
from f2ed.sharding.plan import ClientId, Dealing, Plan, deal, roster_hash
from f2ed.sharding.planner import Advice, Change, advise
from f2ed.sharding.schedule import Batches, EveryKRounds, EveryRound, Fixed, Schedule
from f2ed.sharding.seed import combine, commit

__all__ = [
    "Advice",
    "Batches",
    "Change",
    "ClientId",
    "Contamination",
    "Dealing",
    "EveryKRounds",
    "EveryRound",
    "Exposure",
    "Fixed",
    "Guarantee",
    "Leak",
    "Meter",
    "Plan",
    "Region",
    "Schedule",
    "advise",
    "combine",
    "commit",
    "contamination",
    "deal",
    "exposure",
    "guarantee",
    "leak",
    "recovered_cosine",
    "roster_hash",
    "safe_k",
    "smallest_k",
]
