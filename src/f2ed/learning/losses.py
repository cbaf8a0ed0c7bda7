"""What a model learns: losses and metrics, those of your own included.

A loss is the mean over the samples of a batch. A sample's target is a class by default; with other losses it is a
number or several, a 0 or 1 for each of several labels, or the next token at each position.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import msgspec
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from f2ed.core.errors import ConfigError
from f2ed.core.imports import imported
from f2ed.core.settings import Settings
from f2ed.learning.datasets.base import Data

__all__ = [
    "CROSS_ENTROPY",
    "METRICS",
    "AnyLoss",
    "Bce",
    "CrossEntropy",
    "ImportedLoss",
    "Loss",
    "Mse",
    "NextToken",
    "metric_of",
]

Metric = Callable[[Tensor, Tensor], Any]


class Loss(Settings, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """A loss, by its settings."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a batch."""
        return self.each(outputs, targets).mean()

    @abstractmethod
    def each(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each sample, `[b]`."""

    @abstractmethod
    def outputs(self, data: Data) -> int:
        """Return how many outputs a shipped model needs for a sample; refuse targets that do not fit."""

    def labeled(self, data: Data) -> bool:  # noqa: ARG002  most losses know it without
        """Return whether every sample has one class, as partitions by label and many attacks need."""
        return False

    def accuracy(self, outputs: Tensor, targets: Tensor) -> float | None:  # noqa: ARG002  a loss without it
        """Return the share of right answers; None where there is no such thing."""
        return None

    @property
    def metric(self) -> str | None:
        """The metric that is reported unless another is named."""
        return None


class CrossEntropy(Loss, frozen=True, tag="cross-entropy"):
    """One class for each sample."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss, in one pass."""
        return cross_entropy(outputs, targets)

    def each(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each sample."""
        return cross_entropy(outputs, targets, reduction="none")

    def outputs(self, data: Data) -> int:
        """Return the number of classes."""
        if not _are_classes(data):
            raise ConfigError(
                f"cross-entropy needs one class per sample, and found {_described(data)}; give integers, or state a "
                'loss: "mse", "bce" or "next-token"'
            )
        return data.classes

    def labeled(self, data: Data) -> bool:  # noqa: ARG002  always
        """Return True."""
        return True

    def accuracy(self, outputs: Tensor, targets: Tensor) -> float:
        """Return the share of samples whose largest output is that of their class."""
        return float((outputs.argmax(1) == targets).double().mean())


class Mse(Loss, frozen=True, tag="mse"):
    """Mean squared error: the target of a sample is a number, or several."""

    def each(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean over a sample's numbers."""
        found = (outputs.reshape(targets.shape) - targets).square()
        return found.flatten(1).mean(1) if found.dim() > 1 else found

    def outputs(self, data: Data) -> int:
        """Return how many numbers a sample has."""
        if data.named:
            raise ConfigError("mse needs numbers, and the labels are words or negative integers; give floats")
        return _per_sample(data)

    @property
    def metric(self) -> str:
        """The root of the mean squared error."""
        return "rmse"


class Bce(Loss, frozen=True, tag="bce"):
    """Binary cross-entropy with logits: a 0 or 1 for each of a sample's labels."""

    def each(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean over a sample's labels."""
        found = binary_cross_entropy_with_logits(
            outputs.reshape(targets.shape), targets.to(outputs.dtype), reduction="none"
        )
        return found.flatten(1).mean(1) if found.dim() > 1 else found

    def outputs(self, data: Data) -> int:
        """Return the number of labels of a sample."""
        for targets in (data.train.labels, data.test.labels):
            if not bool(((targets == 0) | (targets == 1)).all()):
                raise ConfigError(f"bce needs 0 or 1 for each label, [n, labels]; found {_described(data)}")
        return _per_sample(data)

    def accuracy(self, outputs: Tensor, targets: Tensor) -> float:
        """Return the share of labels whose output has the right sign."""
        return float(((outputs.reshape(targets.shape) > 0) == (targets > 0.5)).double().mean())


class NextToken(Loss, frozen=True, tag="next-token"):
    """Cross-entropy at each position of a sequence: targets `[n, t]` are tokens, outputs `[n, t, tokens]`."""

    def each(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean over a sample's positions."""
        return cross_entropy(outputs.movedim(-1, 1), targets, reduction="none").mean(1)

    def outputs(self, data: Data) -> int:
        """Return the number of tokens."""
        for targets in (data.train.labels, data.test.labels):
            if targets.dim() != 2 or targets.is_floating_point() or int(targets.min()) < 0:
                raise ConfigError(
                    f"next-token needs the token after each position, integers [n, t] from 0; found {_described(data)}"
                )
        return data.classes

    def accuracy(self, outputs: Tensor, targets: Tensor) -> float:
        """Return the share of positions whose most likely token is right."""
        return float((outputs.argmax(-1) == targets).double().mean())


class ImportedLoss(Loss, frozen=True, tag="imported"):
    """A loss of your own: a function of outputs and targets, or a class such as `torch.nn:HuberLoss`.

    `factory = "package.module:name"`; a class gets the `settings`, a function gets them beside its two arguments.
    """

    factory: str
    settings: dict[str, bool | int | float | str] = msgspec.field(default_factory=dict)

    def __hash__(self) -> int:
        """Hash the settings too, which a dictionary does not do by itself."""
        return hash((self.factory, tuple(sorted(self.settings.items()))))

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return what your function returns for the batch."""
        found = self._function()(outputs, targets)
        if not isinstance(found, Tensor) or found.dim():
            what = f"a tensor of shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise ConfigError(
                f"{self.factory} returned {what}; it must return the mean loss, a tensor without dimensions"
            )
        if outputs.requires_grad and not found.requires_grad:
            raise ConfigError(f"{self.factory} returned a number without a gradient; compute it from the outputs")
        return found

    def each(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each sample as that of a batch of one; training checks that their mean is the loss."""
        one = self._function()
        found: Tensor = torch.vmap(lambda output, target: one(output[None], target[None]))(outputs, targets)
        return found

    def outputs(self, data: Data) -> int:
        """Return the number of classes, or of numbers in a target."""
        return data.classes

    def labeled(self, data: Data) -> bool:
        """Return whether the targets are classes."""
        return _are_classes(data)

    def accuracy(self, outputs: Tensor, targets: Tensor) -> float | None:
        """Return the share of right classes, where targets are classes and outputs one number for each."""
        if targets.dim() != 1 or targets.is_floating_point() or outputs.dim() != 2 or outputs.shape[1] < 2:
            return None
        return float((outputs.argmax(1) == targets).double().mean())

    def _function(self) -> Callable[[Tensor, Tensor], Tensor]:
        found = imported(self.factory)
        if not callable(found):
            raise ConfigError(f"{self.factory} is a {type(found).__name__}; it must be a function or a class")
        try:
            return found(**self.settings) if isinstance(found, type) else partial(found, **self.settings)
        except TypeError as error:
            raise ConfigError(f"{self.factory} cannot be made with {self.settings}: {error}") from None


AnyLoss = CrossEntropy | Mse | Bce | NextToken | ImportedLoss
CROSS_ENTROPY = CrossEntropy()


def metric_of(name: str) -> Metric:
    """Return a metric by its name, or by the import path of a function of outputs and targets."""
    if ":" in name:
        found: Metric = imported(name)
        if not callable(found):
            raise ConfigError(f"{name} is a {type(found).__name__}; it must be a function of outputs and targets")
        return found
    if name not in METRICS:
        raise ConfigError(f'there is no {name!r}; choose from {", ".join(METRICS)}, or write "package.module:function"')
    return METRICS[name]


def _rmse(outputs: Tensor, targets: Tensor) -> Tensor:
    """Root of the mean squared error."""
    return (outputs.reshape(targets.shape) - targets).square().mean().sqrt()


def _mae(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean absolute error."""
    return (outputs.reshape(targets.shape) - targets).abs().mean()


METRICS: dict[str, Metric] = {"rmse": _rmse, "mae": _mae}


def _are_classes(data: Data) -> bool:
    return data.train.labels.dim() == 1 and not data.train.labels.is_floating_point()


def _per_sample(data: Data) -> int:
    return prod(data.train.labels.shape[1:])


def _described(data: Data) -> str:
    labels = data.train.labels
    return f"targets of shape {tuple(labels.shape)} and type {str(labels.dtype).removeprefix('torch.')}"
