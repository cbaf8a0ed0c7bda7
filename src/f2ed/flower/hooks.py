"""What may be called after each round, and settings that follow a schedule."""

import json
from collections.abc import Callable, Iterable, Mapping
from math import isnan
from pathlib import Path
from typing import NamedTuple, TypeAlias, final

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord

from f2ed.core.errors import ConfigError
from f2ed.core.files import write_atomic
from f2ed.flower.checkpoint import write_npz
from f2ed.records import RoundRecord

__all__ = ["BestModel", "FinishedRound", "OnRound", "TrainConfig", "check_hooks", "scheduled"]

TrainConfig: TypeAlias = ConfigRecord | Callable[[int], ConfigRecord | Mapping[str, object]] | None
"""Settings for all rounds, or a function from the number of a round, from 1, to its settings."""


class FinishedRound(NamedTuple):
    """A round that moved the model, once its record is on file."""

    round: int
    """From 1."""
    arrays: ArrayRecord
    record: RoundRecord
    metrics: MetricRecord | None
    """What `evaluate_fn` returned."""


OnRound: TypeAlias = Callable[[FinishedRound], None]


@final
class BestModel:
    """Saves the model whenever a metric of `evaluate_fn` is better than ever: `on_round=BestModel("best.npz")`.

    The best value is kept beside the file, so that a run that continues does not replace a better model.
    """

    def __init__(self, path: str | Path, *, metric: str = "accuracy", smallest: bool = False) -> None:
        self._path = Path(path)
        self._metric = metric
        self._smallest = smallest
        self._note = self._path.with_name(f"{self._path.name}.json")
        if self._path.is_dir() or not self._path.parent.is_dir():
            raise ConfigError(f"the best model cannot be saved as {path}; name a file in a folder that exists")

    def __call__(self, finished: FinishedRound) -> None:
        """Save the model if it is the best so far."""
        value = None if finished.metrics is None else finished.metrics.get(self._metric)
        if not isinstance(value, int | float):
            raise ConfigError(f"evaluate_fn returns no number {self._metric!r}; BestModel needs it to choose a model")
        best = self._best()
        if isnan(value) or (best is not None and not (value < best if self._smallest else value > best)):
            return
        write_npz(self._path, {name: array.numpy() for name, array in finished.arrays.items()})
        note = {"metric": self._metric, "value": float(value), "round": finished.round}
        write_atomic(self._note, json.dumps(note).encode(), mode=0o644)

    def _best(self) -> float | None:
        try:
            return float(json.loads(self._note.read_bytes())["value"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{self._note} cannot be read ({error}); delete it to start over") from None


def check_hooks(hooks: Iterable[OnRound], *, evaluates: bool) -> None:
    """Refuse a hook that needs an evaluation on the server where there is none, before anybody trains."""
    if not evaluates and any(isinstance(hook, BestModel) for hook in hooks):
        raise ConfigError("BestModel chooses a model by what evaluate_fn measures; give evaluate_fn to start")


def scheduled(given: TrainConfig, rounds: int) -> list[ConfigRecord]:
    """Return the settings of every round, so that one that clients would refuse is found before the first."""
    if given is None or isinstance(given, ConfigRecord):
        # One record for all rounds, as in Flower: a change that a strategy makes to it lasts.
        return [ConfigRecord() if given is None else ConfigRecord(dict(given))] * rounds
    if not callable(given):
        raise ConfigError(f"train_config is a {type(given).__name__}; give a ConfigRecord, or a function of the round")
    found = []
    for number in range(1, rounds + 1):
        config = given(number)
        if not isinstance(config, Mapping):
            raise ConfigError(
                f"train_config returned a {type(config).__name__} for round {number}; it must return a ConfigRecord"
            )
        found.append(config if isinstance(config, ConfigRecord) else ConfigRecord(dict(config)))  # type: ignore[arg-type]  # checked by ConfigRecord itself
    return found
