"""A model of your own, by import path."""

import msgspec
from torch import nn

from f2ed.core.errors import ConfigError, first_line
from f2ed.core.imports import imported
from f2ed.learning.models.base import Model

__all__ = ["Imported"]

Setting = bool | int | float | str


class Imported(Model, frozen=True, tag="imported"):
    """Any `nn.Module`: `factory = "package.module:name"` is called with `settings` as keyword arguments.

    The factory handles the shape of a sample and the number of classes itself. It runs as your own code: name only what
    you would import.
    """

    factory: str
    settings: dict[str, Setting] = msgspec.field(default_factory=dict)

    def __hash__(self) -> int:
        """Hash the settings too, which a dictionary does not do by itself."""
        return hash((self.factory, tuple(sorted(self.settings.items()))))

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:  # noqa: ARG002  the factory knows
        """Import the factory and call it."""
        factory = imported(self.factory)
        if not callable(factory):
            raise ConfigError(f"{self.factory} is a {type(factory).__name__}; it must be a class or a function")
        try:
            model = factory(**self.settings)
        except TypeError as error:
            raise ConfigError(f"{self.factory} cannot be called with {self.settings}: {error}") from error
        except Exception as error:
            raise ConfigError(f"{self.factory} failed: {type(error).__name__}: {first_line(error)}") from error
        if not isinstance(model, nn.Module):
            raise ConfigError(f"{self.factory} returned a {type(model).__name__}; it must return a torch.nn.Module")
        return model
