"""Evaluate a model: its accuracy and loss, and its predictions."""

import copy
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from f2ed.core.errors import ConfigError
from f2ed.core.threads import cores
from f2ed.learning.datasets import Samples
from f2ed.learning.losses import CROSS_ENTROPY, Loss, metric_of
from f2ed.learning.threads import run_in_threads
from f2ed.learning.vector import bind, load

__all__ = ["Evaluator", "Score"]

# Images per slice: few enough for a core's cache, many enough to keep a GPU busy.
_SLICE = 256
_SLICE_ON_GPU = 10_000


class Score(NamedTuple):
    """The share of right answers, where there is such a thing, the mean loss, and the metric, where there is one."""

    accuracy: float | None
    loss: float
    metric: float | None = None


class Evaluator:
    """A copy of a model that evaluates weights, in slices; on a CPU channels-last and one slice per thread."""

    def __init__(
        self,
        model: nn.Module,
        device: str | torch.device = "cpu",
        *,
        workers: int | None = None,
        loss: Loss = CROSS_ENTROPY,
        metric: str | None = None,
    ) -> None:
        self.loss = loss
        self.metric = None if (name := metric or loss.metric) is None else metric_of(name)
        self.device = torch.device(device)
        self.model = copy.deepcopy(model).to(self.device).eval()
        self.on_cpu = self.device.type == "cpu"
        self.workers = workers or cores()
        bind(self.model, channels_last=self.on_cpu)

    def score(self, weights: Tensor, samples: Samples) -> Score:
        """Return accuracy, loss and metric on the samples."""
        if not len(samples):
            raise ConfigError("there are no samples to evaluate on; at least one is needed")
        scores = self.scores(weights, samples.images)
        outputs, targets = scores.double(), samples.labels
        if targets.is_floating_point():
            targets = targets.double()
        metric = None if self.metric is None else float(self.metric(outputs, targets))
        return Score(self.loss.accuracy(scores, targets), float(self.loss(outputs, targets)), metric)

    def predictions(self, weights: Tensor, images: Tensor) -> Tensor:
        """Return the class of each image."""
        return self.scores(weights, images).argmax(1)

    def scores(self, weights: Tensor, images: Tensor) -> Tensor:
        """Return the model's output for each image."""
        load(self.model, weights)
        slices = images.split_with_sizes(_sizes(len(images), _SLICE if self.on_cpu else _SLICE_ON_GPU))
        found: list[Tensor] = [images] * len(slices)

        def run(at: int, model: nn.Module) -> None:
            batch = slices[at]
            if self.on_cpu and batch.dim() == 4:
                batch = batch.contiguous(memory_format=torch.channels_last)
            with torch.no_grad():
                found[at] = model(batch)

        tasks = (partial(run, at) for at in range(len(slices)))
        if self.on_cpu:
            run_in_threads(tasks, [self.model] * self.workers)
        else:
            for task in tasks:
                task(self.model)
        return torch.cat(found)


def _sizes(total: int, size: int) -> list[int]:
    """Return the sizes of the slices: `size` each, then the remainder; one empty slice if there is nothing."""
    return [size] * (total // size) + ([total % size] if total % size or not total else [])
