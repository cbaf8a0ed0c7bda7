"""The types of what `simulate` and `Simulation` take beside settings; Python itself would complain much later."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets.base import Data
from f2ed.simulation.config import Experiment

__all__ = ["check_arguments"]

_KINDS: Mapping[str, tuple[Any, str]] = {
    "data": (Data | None, "data that f2ed has loaded; for arrays of your own use simulate(data=(X, y, Xt, yt))"),
    "device": (str, 'a name, such as "cpu" or "cuda"'),
    "experiment": (Experiment, "what experiment(settings) returns, or use simulate(**settings)"),
    "folder": (str | PathLike | None, "the path of a folder"),
    "name": (str, "a text"),
    "strict": (bool, "True or False"),
    "workers": (int | None, "a number of threads, 1 or more"),
}


def check_arguments(**given: Any) -> None:
    """Raise `ConfigError` for the first argument of a wrong type."""
    for name, value in given.items():
        if name == "notify":
            wanted, fits = "a function", callable(value)
        else:
            kind, wanted = _KINDS[name]
            fits = isinstance(value, kind) and not (name == "workers" and _is_no_number(value))
        if not fits:
            found = f" ({value!r})" if isinstance(value, str | int | float) else ""
            raise ConfigError(f"{name}: found a {type(value).__name__}{found}; give {wanted}")


def _is_no_number(value: object) -> bool:
    return value is not None and (isinstance(value, bool) or (isinstance(value, int) and value < 1))
