"""The paper's convolutional network: 319,520 parameters on images of 28 x 28 with ten classes."""

from typing import Annotated

import msgspec
from torch import nn

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets.base import image_shape
from f2ed.learning.models.base import Model

__all__ = ["Cnn"]

Count = Annotated[int, msgspec.Meta(ge=1)]


class Cnn(Model, frozen=True, tag="cnn"):
    """Two 5 x 5 convolutions with same padding, each followed by 2 x 2 pooling, then two dense layers."""

    filters: Count = 30
    hidden: Count = 200

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Build the module."""
        channels, height, width = image_shape(shape)
        if min(height, width) < 4:
            raise ConfigError(f"images of {height} x {width} are too small for two 2 x 2 poolings; use at least 4 x 4")
        return nn.Sequential(
            nn.Conv2d(channels, self.filters, 5, padding=2),
            # ReLU after pooling equals ReLU before it, at a quarter of the cost.
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(self.filters, self.filters, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(self.filters * (height // 4) * (width // 4), self.hidden),
            nn.ReLU(),
            nn.Linear(self.hidden, classes),
        )
