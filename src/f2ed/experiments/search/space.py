"""The attacks that a search chooses from, each with the ranges of its settings, and where the search begins."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.experiments.search.objective import MEASURES, Objective

__all__ = ["Chooser", "Space", "fingerprint", "kinds_for"]

Settings = dict[str, Any]


class Chooser(Protocol):
    """What proposes a value for each named setting: a trial of Optuna."""

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Choose from a list."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """Choose from an interval."""

    def suggest_int(self, name: str, low: int, high: int) -> int:
        """Choose a whole number."""


class Space(NamedTuple):
    """What may be tried against one setting."""

    objective: Objective
    kinds: tuple[str, ...]
    rounds: int
    sharded: bool
    lr: float
    epochs: int
    """Learning rate and local epochs of the honest clients, which the attackers' own are multiples of."""

    def propose(self, choose: Chooser) -> Settings:
        """Return an attack, the round in which it begins and the placement of the malicious clients."""
        kind = choose.suggest_categorical("kind", self.kinds)
        settings = _SPACES[self.objective][kind](choose, self)
        begins = choose.suggest_int("attack_from", 0, self.rounds // 2)
        placement = choose.suggest_categorical("placement", ("random", "spread", "packed")) if self.sharded else ""
        return {
            "attack": {"kind": kind, **settings},
            "attack_from": begins,
            "placement": None if placement in {"", "random"} else placement,
        }

    def known(self) -> list[Settings]:
        """Return the parameters of the attacks that are usually listed, so that a search does not fall behind them."""
        return [_DEFAULTS | each for each in _KNOWN[self.objective] if each["kind"] in self.kinds]


class _Recorder:
    """A chooser that takes the first of what it is offered, and notes all of it."""

    def __init__(self) -> None:
        self.offered: list[tuple[Any, ...]] = []

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        self.offered.append((name, *choices))
        return choices[0]

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        self.offered.append((name, low, high, log))
        return low

    def suggest_int(self, name: str, low: int, high: int) -> int:
        self.offered.append((name, low, high))
        return low


def fingerprint(objective: Objective) -> str:
    """Return a digest of all that may be tried and of what is measured; other trials cannot be continued."""
    recorder = _Recorder()
    for kind in _SPACES[objective]:
        Space(objective, (kind,), 2, sharded=True, lr=1.0, epochs=1).propose(recorder)
    every = (recorder.offered, _KNOWN[objective], _DEFAULTS, *MEASURES[objective])
    return hashlib.sha256(msgspec.json.encode(every, order="sorted")).hexdigest()[:16]


def kinds_for(objective: Objective, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds to choose from: those wanted, or all."""
    every = tuple(_SPACES[objective])
    known = {kind for space in _SPACES.values() for kind in space}
    if unknown := [kind for kind in wanted if kind not in known]:
        raise ConfigError(f"a search knows no attack {unknown[0]!r}; choose from: {', '.join(sorted(known))}")
    return tuple(kind for kind in every if kind in wanted or not wanted)


def _number(value: float) -> float:
    """Keep four digits, so that a saved attack can be read."""
    return float(f"{value:.4g}")


def _log(choose: Chooser, name: str, low: float, high: float) -> float:
    return _number(choose.suggest_float(name, low, high, log=True))


def _aware(choose: Chooser) -> Settings:
    return {"shard_aware": choose.suggest_categorical("shard_aware", (False, True))}


def _training(choose: Chooser, space: Space) -> Settings:
    return {
        "share": _log(choose, "share", 0.03, 1.0),
        "lr": _number(space.lr * _log(choose, "lr_factor", 0.25, 4.0)),
        "epochs": space.epochs * choose.suggest_int("epochs_factor", 1, 6),
    }


def _boosted(choose: Chooser, space: Space) -> Settings:
    return {**_training(choose, space), "boost": _log(choose, "boost", 0.3, 10.0), **_aware(choose)}


def _triggered(choose: Chooser, space: Space) -> Settings:
    return {**_boosted(choose, space), "blend": _number(choose.suggest_float("blend", 0.3, 1.0))}


def _a3fl(choose: Chooser, space: Space) -> Settings:
    return {**_triggered(choose, space), "unlearning": _log(choose, "unlearning", 0.01, 1.0)}


def _iba(choose: Chooser, space: Space) -> Settings:
    # More than this changes the answers of a model that was never poisoned.
    reach = _number(choose.suggest_float("reach_of_noise", 0.02, 0.1))
    return {**_boosted(choose, space), "reach": reach, "ratio": _number(choose.suggest_float("ratio", 0.3, 1.0))}


def _neurotoxin(choose: Chooser, space: Space) -> Settings:
    return {**_triggered(choose, space), "ratio": _number(choose.suggest_float("ratio", 0.3, 1.0))}


def _subpopulation(choose: Chooser, space: Space) -> Settings:
    return {**_boosted(choose, space), "tail": _number(choose.suggest_float("tail", 0.02, 0.3))}


def _adaptive(choose: Chooser, space: Space) -> Settings:
    return {
        **_training(choose, space),
        "blend": _number(choose.suggest_float("blend", 0.3, 1.0)),
        "reach": choose.suggest_categorical("reach", ("oracle", "edge")),
        "blind": _number(choose.suggest_float("blind", 0.0, 1.0)),
        "disguise": _number(choose.suggest_float("disguise", 0.0, 1.0)),
        "boost": _log(choose, "reach_factor", 0.3, 2.0),
    }


def _quiet(choose: Chooser, space: Space) -> Settings:
    blend = _number(choose.suggest_float("blend", 0.3, 1.0))
    return {**_training(choose, space), "blend": blend, "reach": _log(choose, "step", 0.05, 1.0)}


def _directed(choose: Chooser, _space: Space) -> Settings:
    return {"direction": choose.suggest_categorical("direction", ("mean", "sign", "spread", "principal"))}


def _within(choose: Chooser, _space: Space) -> Settings:
    return {"direction": choose.suggest_categorical("inward", ("mean", "sign", "spread")), **_aware(choose)}


def _trimmed(choose: Chooser, _space: Space) -> Settings:
    return {
        "space": choose.suggest_categorical("space", ("updates", "weights")),
        "b": _number(1 + _log(choose, "b", 0.1, 4.0)),
        **_aware(choose),
    }


def _scaled(choose: Chooser, _space: Space) -> Settings:
    return {"scale": _log(choose, "scale", 0.1, 10.0), **_aware(choose)}


def _hidra(choose: Chooser, _space: Space) -> Settings:
    sections = choose.suggest_categorical("sections", ("whole", "1000"))
    return {
        "sections": sections if sections == "whole" else int(sections),
        "slack": _number(1 + _log(choose, "slack", 0.1, 10.0)),
        **_aware(choose),
    }


_SPACES: Mapping[Objective, Mapping[str, Callable[[Chooser, Space], Settings]]] = {
    "backdoor": {
        "model-replacement": _triggered,
        "dba": _triggered,
        "neurotoxin": _neurotoxin,
        "chameleon": _triggered,
        "a3fl": _a3fl,
        "iba": _iba,
        "adaptive-backdoor": _adaptive,
        "quiet-backdoor": _quiet,
        "edge-case": _subpopulation,
        "semantic": _subpopulation,
    },
    "accuracy": {
        "oracle": _directed,
        "edge": _directed,
        "hidra": _hidra,
        "min-max": _within,
        "min-sum": _within,
        "krum-attack": lambda choose, _: _aware(choose),
        "trimmed-mean-attack": _trimmed,
        "alie": lambda choose, _: {"z": _log(choose, "z", 0.1, 10.0), **_aware(choose)},
        "ipm": _scaled,
        "sign-flip": _scaled,
        "label-flip": _boosted,
        "stretched-mimic": lambda choose, _: {"stretch": _log(choose, "stretch", 2.0, 100.0)},
    },
}

_DEFAULTS: Settings = {
    "attack_from": 0,
    "placement": "random",
    "shard_aware": True,
    "share": 20 / 64,
    "lr_factor": 1.0,
    "epochs_factor": 1,
    "boost": 1.0,
    "blend": 1.0,
    "ratio": 0.95,
    "unlearning": 0.01,
    "reach_of_noise": 0.1,
    "tail": 0.1,
    "reach": "oracle",
    "blind": 0.0,
    "disguise": 0.0,
    "reach_factor": 1.0,
    "step": 0.2,
    "direction": "mean",
    "inward": "mean",
    "space": "weights",
    "b": 1.0,
    "scale": 2.0,
    "sections": "whole",
    "slack": 20**0.5 - 1,
    "z": 1.0,
    "stretch": 20.0,
}
_KNOWN: Mapping[Objective, Sequence[Settings]] = {
    "backdoor": (
        {"kind": "model-replacement", "shard_aware": False},
        {"kind": "model-replacement", "shard_aware": False, "boost": 2.0},
        {"kind": "model-replacement", "boost": 2.5},
        {"kind": "dba", "shard_aware": False},
        {"kind": "neurotoxin", "shard_aware": False},
        {"kind": "adaptive-backdoor"},
        {"kind": "adaptive-backdoor", "disguise": 1.0},
        {"kind": "adaptive-backdoor", "disguise": 0.5},
        {"kind": "adaptive-backdoor", "reach": "edge", "blind": 1.0},
        {"kind": "quiet-backdoor"},
        {"kind": "quiet-backdoor", "step": 0.35},
        {"kind": "chameleon", "shard_aware": False},
        {"kind": "edge-case", "shard_aware": False},
        {"kind": "semantic", "shard_aware": False},
        {"kind": "a3fl", "shard_aware": False},
        {"kind": "iba", "shard_aware": False},
    ),
    "accuracy": (
        {"kind": "oracle"},
        {"kind": "edge"},
        {"kind": "hidra"},
        {"kind": "min-max"},
        {"kind": "krum-attack"},
        {"kind": "trimmed-mean-attack"},
        {"kind": "min-sum"},
        {"kind": "label-flip"},
        {"kind": "alie"},
        {"kind": "ipm"},
        {"kind": "stretched-mimic"},
    ),
}
