"""Dense models: a multilayer perceptron, and logistic regression as the one without hidden layers."""

import math
from itertools import pairwise
from typing import Annotated

import msgspec
from torch import nn

from f2ed.learning.models.base import Model

__all__ = ["Logistic", "Mlp"]


class Mlp(Model, frozen=True, tag="mlp"):
    """Dense layers of the `hidden` sizes with ReLU between them."""

    hidden: tuple[Annotated[int, msgspec.Meta(ge=1)], ...] = (100,)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Build the module."""
        return _dense(math.prod(shape), *self.hidden, classes)


class Logistic(Model, frozen=True, tag="logistic"):
    """Multinomial logistic regression: one dense layer."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Build the module."""
        return _dense(math.prod(shape), classes)


def _dense(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
