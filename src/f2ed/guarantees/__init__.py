"""What a setting promises and gives away: robustness, contamination, a planner, and what opened sums leak."""

from f2ed.guarantees.contamination import Contamination, contamination
from f2ed.guarantees.leakage import Exposure, Leak, Meter, exposure, leak, recovered_cosine, safe_k, smallest_k
from f2ed.guarantees.planner import Change, ShardPlan, plan_shards
from f2ed.guarantees.robustness import Guarantee, Region, guarantee

__all__ = [
    "Change",
    "Contamination",
    "Exposure",
    "Guarantee",
    "Leak",
    "Meter",
    "Region",
    "ShardPlan",
    "contamination",
    "exposure",
    "guarantee",
    "leak",
    "plan_shards",
    "recovered_cosine",
    "safe_k",
    "smallest_k",
]
