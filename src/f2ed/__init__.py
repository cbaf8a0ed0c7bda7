"""Federated learning protected in both directions (F²ed-Learning, Wang et al. 2021).

import f2ed
estimate = f2ed.FilterL2(contamination=0.1)(updates)      # a robust mean of the rows of [n, d]
plan = f2ed.plan_shards(clients=1000, malicious=2, min_crowd=8)
estimate, audit = f2ed.robust_secure_mean(exchange, assignment, estimator, task)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from f2ed.core.errors import ConfigError, F2edError, MissingExtra, OutageError, PeerError, Refusal
from f2ed.estimators import (
    Bulyan,
    Estimate,
    FilterL2,
    GeometricMedian,
    GramStream,
    Krum,
    Mean,
    Median,
    MultiKrum,
    TrimmedMean,
)
from f2ed.guarantees import plan_shards
from f2ed.protocol.aggregation import Audit, Exchange, Protocol, Task, robust_secure_mean
from f2ed.protocol.dp import Noise
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.protocol.sharding import Assignment, assign_shards

if TYPE_CHECKING:
    from f2ed.simulation import Experiment, Run, simulate

__version__ = "0.1.0.dev0"

__all__ = [
    "Assignment",
    "Audit",
    "Bulyan",
    "ConfigError",
    "Encoding",
    "Estimate",
    "Exchange",
    "Experiment",
    "F2edError",
    "FilterL2",
    "GeometricMedian",
    "GramStream",
    "Krum",
    "Mean",
    "Median",
    "MissingExtra",
    "MultiKrum",
    "Noise",
    "OutageError",
    "PeerError",
    "Protocol",
    "Refusal",
    "Run",
    "Task",
    "TrimmedMean",
    "__version__",
    "assign_shards",
    "plan_shards",
    "robust_secure_mean",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """Import what needs an optional dependency on first use."""
    if name in {"Experiment", "Run", "simulate"}:
        return getattr(_optional("f2ed.simulation", extra="train"), name)
    if name == "flower":
        return _optional("f2ed.flower", extra="flower")
    raise AttributeError(f"module 'f2ed' has no attribute {name!r}")


def _optional(module: str, *, extra: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "f2ed":
            raise
        raise MissingExtra(module, extra) from None
