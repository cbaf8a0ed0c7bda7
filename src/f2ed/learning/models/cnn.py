"""The paper's convolutional network: 319,520 parameters on images of 28 x 28 with ten classes."""

from typing import Annotated

import msgspec
from torch import nn

from f2ed.core.errors import ConfigError
from f2ed.learning.models.base import Model

__all__ = ["Cnn"]

Count = Annotated[int, msgspec.Meta(ge=1)]


class Cnn(Model, frozen=True, tag="cnn"):
    """Two 5 x 5 convolutions (padded, so that sides only halve), each pooled 2 x 2, then two dense layers."""

    filters: Count = 30
    hidden: Count = 200

    def build(self, shape: tuple[int, int, int], classes: int) -> nn.Module:
        """Build the module."""
        channels, height, width = shape
        if min(height, width) < 4:
            raise ConfigError(f"images of {height} x {width} are too small to be pooled twice; 4 x 4 is the least")
        return nn.Sequential(
            nn.Conv2d(channels, self.filters, 5, padding=2),
            # ReLU after pooling is ReLU before it, on a quarter of the numbers.
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
