"""Federated learning protected in both directions (F²ed-Learning, Wang et al. 2021).

import f2ed
estimate = f2ed.FilterL2(contamination=0.1)(updates)      # a robust mean of the rows of [n, d]
plan = f2ed.plan_shards(clients=1000, malicious=2, min_crowd=8)
estimate, audit = f2ed.robust_secure_mean(exchange, assignment, estimator, task)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from f2ed.core.errors import ConfigError, F2edError, MissingExtra, OutageError, PeerError, Refusal

if TYPE_CHECKING:
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


_HOMES = {
    "f2ed.estimators": (
        "Bulyan",
        "Estimate",
        "FilterL2",
        "GeometricMedian",
        "GramStream",
        "Krum",
        "Mean",
        "Median",
        "MultiKrum",
        "TrimmedMean",
    ),
    "f2ed.guarantees": ("plan_shards",),
    "f2ed.protocol.aggregation": ("Audit", "Exchange", "Protocol", "Task", "robust_secure_mean"),
    "f2ed.protocol.dp": ("Noise",),
    "f2ed.protocol.quantization.encoding": ("Encoding",),
    "f2ed.protocol.sharding": ("Assignment", "assign_shards"),
}
"""Where the names are that need no optional dependency; they are imported on first use, so that a command starts fast
and can be interrupted at once."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_ROOMS = {"core", "estimators", "guarantees", "protocol", "records"}


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    if name in _ROOMS:
        return import_module(f"f2ed.{name}")
    if name in {"Experiment", "Run", "simulate"}:
        return getattr(_optional("f2ed.simulation", extra="train"), name)
    if name == "flower":
        return _optional("f2ed.flower", extra="flower")
    raise AttributeError(f"module 'f2ed' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what there is, imported or not."""
    return sorted({*globals(), *__all__})


def _optional(module: str, *, extra: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "f2ed":
            raise
        raise MissingExtra(module, extra) from None
