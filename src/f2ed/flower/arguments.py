"""The arguments of `F2ed` and of `start`, refused by name before anything starts."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import numpy as np
from msgspec import Meta

from f2ed.core.errors import ConfigError
from f2ed.core.settings import Settings
from f2ed.estimators import Estimator
from f2ed.protocol.aggregation import ServerOptimizer

__all__ = ["checked"]

P = ParamSpec("P")
R = TypeVar("R")

_Seconds = Annotated[float, Meta(gt=0)]
_Patience = Annotated[float, Meta(ge=0)]
_HINTS: dict[str, Any] = {
    "min_crowd": Annotated[int, Meta(ge=1)],
    "delta": Annotated[float, Meta(gt=0, lt=1)],
    **dict.fromkeys(("deadline", "train_deadline", "min_deadline"), _Seconds),
    **dict.fromkeys(("wait_for_nodes", "max_wait"), _Patience),
    "max_skipped": Annotated[int, Meta(ge=1)],
    "seed": Annotated[int, Meta(ge=0, le=2**63 - 1)] | None,
    **dict.fromkeys(("malicious", "min_shards", "memory_budget"), int | None),
    **dict.fromkeys(("accept_no_guarantee", "secure"), bool),
    "num_rounds": Annotated[int, Meta(ge=0)],
    "timeout": _Seconds | None,
}
_KINDS: dict[str, tuple[type, str]] = {
    "estimator": (Estimator, "an estimator, such as f2ed.FilterL2(contamination=0.1)"),
    "server_optimizer": (ServerOptimizer, "one of f2ed.protocol.aggregation, such as FedAdam()"),
}
_CALLED = ("root_fn", "evaluate_fn", "on_round")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Have the arguments of a function checked by their names; those without a rule pass."""
    parameters = signature(function)

    @wraps(function)
    def checking(*args: P.args, **kwargs: P.kwargs) -> R:
        given = parameters.bind(*args, **kwargs).arguments
        for name, value in given.items():
            _check(name, value)
        _check_files(given)
        return function(*args, **kwargs)

    return checking


def _check(name: str, value: Any) -> None:
    if name in _HINTS:
        Settings.checked(name, value.item() if isinstance(value, np.generic) else value, _HINTS[name])
    elif name in _KINDS and value is not None:
        kind, wanted = _KINDS[name]
        if not isinstance(value, kind):
            raise ConfigError(f"{name} is {_described(value)}; give {wanted}")
    elif name in _CALLED and value is not None:
        for each in value if isinstance(value, list | tuple) else [value]:
            if not callable(each):
                raise ConfigError(f"{name} is {_described(each)}; give a function")


def _check_files(given: Mapping[str, Any]) -> None:
    kept, written = given.get("checkpoint"), given.get("records")
    if kept and written and Path(kept).resolve() == Path(written).resolve():
        raise ConfigError(f"checkpoint and records are the same file, {kept}; each would overwrite the other: name two")


def _described(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
