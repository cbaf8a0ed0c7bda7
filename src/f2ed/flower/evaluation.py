"""How a model is evaluated after each round: on the server, by clients, or under masks."""

from collections.abc import Callable, Mapping
from logging import getLogger
from math import isfinite
from typing import NamedTuple, TypeAlias

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp.strategy import Result

from f2ed.core.errors import ConfigError
from f2ed.flower.checkpoint import Progress

__all__ = ["EvaluateFn", "Evaluation", "evaluated", "recorded"]

_log = getLogger("f2ed.flower")

EvaluateFn: TypeAlias = Callable[[int, ArrayRecord], MetricRecord | None]


class Evaluation(NamedTuple):
    """How a model is evaluated after each round."""

    server: EvaluateFn | None
    clients: EvaluateFn
    """Asks clients, where the roster and the strategy let it."""
    masked: ConfigRecord | None = None
    """What clients are given to evaluate under masks; None if they are not asked to."""


def evaluated(evaluate_fn: EvaluateFn | None, progress: Progress, result: Result) -> MetricRecord | None:
    """Evaluate on the server."""
    metrics = None if evaluate_fn is None else evaluate_fn(progress.round, progress.arrays)
    if metrics is not None:
        if not isinstance(metrics, Mapping):
            raise ConfigError(
                f"evaluate_fn returned a {type(metrics).__name__}; return a MetricRecord, such as "
                "MetricRecord({'loss': loss, 'accuracy': accuracy}), or None"
            )
        result.evaluate_metrics_serverapp[progress.round] = metrics
        _log.info("f2ed: after round %s: %s", progress.round, dict(metrics))
    return metrics


def recorded(metrics: MetricRecord | None) -> dict[str, float]:
    """Return what the round's record holds of an evaluation."""
    found = {name: None if metrics is None else metrics.get(name) for name in ("accuracy", "loss")}
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float) and isfinite(value)}
