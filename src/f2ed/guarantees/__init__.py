"""What a setting guarantees and what it reveals: robustness, contamination, a planner, and what opened sums leak."""

from f2ed.guarantees.contamination import Contamination, contamination
from f2ed.guarantees.helpers_plan import HelpersPlan, plan_helpers
from f2ed.guarantees.helpers_rule import recommended_rule
from f2ed.guarantees.leakage import (
    Exposure,
    LeakFollower,
    LeakMeter,
    ScheduleLeak,
    Unopened,
    determined,
    exposure,
    forecast_leak,
    leverages,
    recovered_cosine,
    safe_k,
    smallest_k,
    worst_leverages,
)
from f2ed.guarantees.planner import Change, ShardPlan, plan_shards
from f2ed.guarantees.pool import outnumbered
from f2ed.guarantees.robustness import Guarantee, guarantee
from f2ed.guarantees.samples import SamplePlan, malicious_in_sample, plan_sample

__all__ = [
    "Change",
    "Contamination",
    "Exposure",
    "Guarantee",
    "HelpersPlan",
    "LeakFollower",
    "LeakMeter",
    "SamplePlan",
    "ScheduleLeak",
    "ShardPlan",
    "Unopened",
    "contamination",
    "determined",
    "exposure",
    "forecast_leak",
    "guarantee",
    "leverages",
    "malicious_in_sample",
    "outnumbered",
    "plan_helpers",
    "plan_sample",
    "plan_shards",
    "recommended_rule",
    "recovered_cosine",
    "safe_k",
    "smallest_k",
    "worst_leverages",
]
