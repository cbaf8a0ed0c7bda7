"""How good a model is, and how far an attack has got."""

import copy
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from f2ed.errors import ConfigError
from f2ed.learning.datasets import Samples
from f2ed.learning.vector import bind, load

__all__ = ["AttackSuccess", "Evaluator", "Score"]

# Slices that stay in a CPU's cache; a GPU takes as much as is reasonable.
_SLICE = {"cpu": 256}
_SLICE_ELSEWHERE = 10_000


class Score(NamedTuple):
    """The share of samples classified rightly, and the mean loss."""

    accuracy: float
    loss: float


class AttackSuccess(NamedTuple):
    """The share of triggered inputs classified as the target.

    `others` counts only inputs whose true label is not the target, as a backdoor should be judged;
    `every` counts all, so that a perfect model without a backdoor has the target's frequency.
    """

    others: float
    every: float


class Evaluator:
    """A copy of a model that evaluates weights, in slices and, on a CPU, in channels-last layout."""

    def __init__(self, model: nn.Module, device: str | torch.device = "cpu") -> None:
        self.device = torch.device(device)
        self.model = copy.deepcopy(model).to(self.device).eval()
        on_cpu = self.device.type == "cpu"
        bind(self.model, channels_last=on_cpu)
        self.memory = torch.channels_last if on_cpu else torch.contiguous_format

    def score(self, weights: Tensor, samples: Samples) -> Score:
        """Return accuracy and loss on the samples."""
        if not len(samples):
            raise ConfigError("there are no samples to evaluate on; one at least is needed")
        right = torch.zeros((), dtype=torch.int64, device=self.device)
        loss = torch.zeros((), dtype=torch.float64, device=self.device)
        for scores, labels in self._slices(weights, samples):
            right += (scores.argmax(1) == labels).sum()
            loss += cross_entropy(scores, labels, reduction="sum")
        return Score(int(right) / len(samples), float(loss) / len(samples))

    def predictions(self, weights: Tensor, images: Tensor) -> Tensor:
        """Return the class of each image."""
        nothing = torch.zeros(len(images), dtype=torch.int64, device=images.device)
        parts = [scores.argmax(1) for scores, _ in self._slices(weights, Samples(images, nothing))]
        return torch.cat(parts) if parts else nothing

    def attack_success(self, weights: Tensor, triggered: Samples, target: int | Tensor) -> AttackSuccess:
        """Return how many triggered images, with their true labels, are taken for the target (one, or one each)."""
        fooled = self.predictions(weights, triggered.images) == target
        others = triggered.labels != target
        if not bool(others.any()):
            raise ConfigError("every triggered image has the target as its true label; others are needed to judge")
        return AttackSuccess(float(fooled[others].double().mean()), float(fooled.double().mean()))

    def _slices(self, weights: Tensor, samples: Samples) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the scores and labels of one slice after another."""
        load(self.model, weights)
        size = _SLICE.get(self.device.type, _SLICE_ELSEWHERE)
        for at in range(0, len(samples), size):
            images = samples.images[at : at + size]
            if images.dim() == 4:
                images = images.contiguous(memory_format=self.memory)
            with torch.inference_mode():
                scores = self.model(images)
            yield scores, samples.labels[at : at + size]
