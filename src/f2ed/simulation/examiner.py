"""Evaluation by several workers with one torch thread each: torch's own threads collapse on a busy machine."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from f2ed.learning import Evaluator, Samples, Score
from f2ed.learning.threads import in_threads

__all__ = ["Examiner"]

# As many on every machine, so that sums do not depend on the number of workers.
_PARTS = 8

Part = TypeVar("Part")
Result = TypeVar("Result")


class Examiner:
    """Copies of a model that evaluate weights, each on a part of the samples; on a GPU there is one."""

    def __init__(self, model: nn.Module, device: torch.device, workers: int) -> None:
        self._parts = _PARTS if device.type == "cpu" else 1
        self._evaluators = [Evaluator(model, device) for _ in range(workers if device.type == "cpu" else 1)]

    def score(self, weights: Tensor, samples: Samples) -> Score:
        """Return accuracy and loss on the samples."""
        parts = [Samples(*part) for part in self._cut(samples.images, samples.labels)]
        scores = self._each(lambda evaluator, part: evaluator.score(weights, part), parts)
        sizes = [len(part) for part in parts]
        right = sum(round(score.accuracy * size) for score, size in zip(scores, sizes, strict=True))
        loss = sum(score.loss * size for score, size in zip(scores, sizes, strict=True))
        return Score(right / len(samples), loss / len(samples))

    def predictions(self, weights: Tensor, images: Tensor) -> Tensor:
        """Return the class of each image."""
        parts = [part for (part,) in self._cut(images)]
        return torch.cat(self._each(lambda evaluator, part: evaluator.predictions(weights, part), parts))

    def _cut(self, *tensors: Tensor) -> list[tuple[Tensor, ...]]:
        """Cut the tensors alike into parts that are not empty."""
        return list(zip(*(tensor.tensor_split(min(self._parts, len(tensor))) for tensor in tensors), strict=True))

    def _each(self, work: Callable[[Evaluator, Part], Result], parts: list[Part]) -> list[Result]:
        if len(self._evaluators) == 1:
            return [work(self._evaluators[0], part) for part in parts]
        found: dict[int, Result] = {}

        def task(number: int, evaluator: Evaluator) -> None:
            found[number] = work(evaluator, parts[number])

        in_threads([partial(task, number) for number in range(len(parts))], self._evaluators)
        return [found[number] for number in range(len(parts))]
