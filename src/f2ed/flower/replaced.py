"""Replacing names inside Flower, which must be there: in another version the node does not start."""

from typing import Any

import flwr

from f2ed.core.errors import ConfigError

__all__ = ["replace"]


def replace(place: Any, name: str, new: Any) -> None:
    """Set a name of a module or class of Flower; raise `ConfigError` if this version has no such name."""
    if not hasattr(place, name):
        raise ConfigError(
            f"flwr {flwr.__version__} has no {name} in {getattr(place, '__name__', place)}; f2ed needs flwr 1.41"
        )
    setattr(place, name, new)
