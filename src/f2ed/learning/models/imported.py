"""A model of your own, by import path."""

import importlib
from collections.abc import Callable

import msgspec
from torch import nn

from f2ed.core.errors import ConfigError
from f2ed.learning.models.base import Model

__all__ = ["Imported"]

Setting = bool | int | float | str


class Imported(Model, frozen=True, tag="imported"):
    """Any `nn.Module`: `factory = "package.module:name"` is called with `settings` as keyword arguments.

    The factory handles the image shape and the number of classes itself. It runs as your own code: name only what you
    would import.
    """

    factory: str
    settings: dict[str, Setting] = msgspec.field(default_factory=dict)

    def build(self, shape: tuple[int, int, int], classes: int) -> nn.Module:  # noqa: ARG002  the factory knows
        """Import the factory and call it."""
        model = self._load()(**self.settings)
        if not isinstance(model, nn.Module):
            raise ConfigError(f"{self.factory} returned a {type(model).__name__}; it must return a torch.nn.Module")
        return model

    def _load(self) -> Callable[..., object]:
        module, _, name = self.factory.partition(":")
        if not module or not name:
            raise ConfigError(f'{self.factory!r} is not an import path; write "package.module:factory"')
        try:
            found = getattr(importlib.import_module(module), name)
        except ImportError as missing:
            raise ConfigError(f"the model {self.factory} cannot be imported: {missing}") from missing
        except AttributeError:
            raise ConfigError(f"the module {module} has no {name}; check the model's import path") from None
        if not callable(found):
            raise ConfigError(f"{self.factory} is a {type(found).__name__}; it must be a class or a function")
        factory: Callable[..., object] = found
        return factory
