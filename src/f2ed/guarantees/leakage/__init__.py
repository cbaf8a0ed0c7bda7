"""What the sums that a server opens over many rounds determine about single clients."""

from f2ed.guarantees.leakage.exposure import Exposure, LeakMeter, exposure
from f2ed.guarantees.leakage.follower import LeakFollower, Unopened
from f2ed.guarantees.leakage.forecast import (
    ScheduleLeak,
    forecast_leak,
    recovered_cosine,
    safe_k,
    smallest_k,
)
from f2ed.guarantees.leakage.leverage import determined, leverages, worst_leverages

__all__ = [
    "Exposure",
    "LeakFollower",
    "LeakMeter",
    "ScheduleLeak",
    "Unopened",
    "determined",
    "exposure",
    "forecast_leak",
    "leverages",
    "recovered_cosine",
    "safe_k",
    "smallest_k",
    "worst_leverages",
]
