"""A3FL, a backdoor whose trigger is adapted to the global model (Zhang et al., NeurIPS 2023), simplified."""

from dataclasses import replace
from typing import Annotated

import msgspec
import numpy as np

from f2ed.attacks._common.backdoor import Count, SquareBackdoor
from f2ed.attacks._common.goal import EvaluationData, Examples, Goal
from f2ed.attacks._common.learning import learning, sample
from f2ed.attacks._common.training import MaliciousClients, Slopes
from f2ed.attacks._common.triggers import paint, poisoned
from f2ed.attacks.base import Positive
from f2ed.core.arrays import Array, namespace, to_numpy

__all__ = ["A3FL"]


class A3FL(SquareBackdoor, frozen=True, kw_only=True, tag="a3fl"):
    """Learn the pixels of the trigger in every round, so that even a model trained to unlearn it obeys.

    From the uniform square, `steps` steps of size `step_size` (white is 1) follow the sign of the gradient of the loss
    for the target label, at the global model and, with weight `unlearning` times its cosine with that, at a model
    trained on triggered images with their true labels, which is renewed every `refresh` steps. The malicious clients
    pool `samples` images for this, and train with the trigger as usual. The original goes on from the trigger of the
    round before instead of the square; success is measured with the trigger of the round.
    """

    title = "A3FL"
    family = "backdoor"
    paper = "after Zhang et al., NeurIPS 2023"

    steps: Count = 20
    step_size: Positive = 0.05
    refresh: Count = 10
    unlearning: Annotated[float, msgspec.Meta(ge=0.0)] = 0.01
    samples: Count = 512

    def goal(self, evaluation: EvaluationData) -> Goal:
        """Keep the images without the trigger, for the triggers to come."""
        return replace(super().goal(evaluation), clean=evaluation.test.images)

    def learn(self, clients: MaliciousClients) -> Goal:
        """Learn the trigger, and show it to the model in the place of the square."""
        goal, clean, slopes = learning(clients)
        pattern = self._pattern(clients, slopes)
        images = paint(clean, self.marks(clean, None), pattern, self.blend or 1.0)
        return replace(goal, images=images, learned=pattern)

    def poison(self, clients: MaliciousClients) -> list[Examples]:
        """Use the trigger of the round."""
        if clients.goal is None or clients.goal.learned is None:
            return super().poison(clients)
        pattern, blend = clients.goal.learned, self.blend or 1.0
        return [
            poisoned(data, self.share, self.marks(data.images, None), pattern, self.target, clients.rng, blend=blend)
            for data in clients.data
        ]

    def _pattern(self, clients: MaliciousClients, slopes: Slopes) -> Array:
        data = sample(clients, self.samples)
        (box,), xp = self.marks(data.images, None), namespace(data.images)
        inside = (..., slice(box.row, box.row + box.height), slice(box.column, box.column + box.width))
        palette, target = clients.palette, xp.full_like(data.labels, self.target)
        pattern = xp.full_like(data.images[0][inside], self.shade(palette))
        low, high = sorted((palette.black, palette.white))
        other, closeness = None, 0.0
        for step in range(self.steps):
            if self.unlearning and step and step % self.refresh == 0:
                other, closeness = self._unlearned(clients, pattern)
            shown = paint(data.images, (box,), pattern, self.blend or 1.0)
            slope = slopes(shown, target)[inside].sum(0)
            if other is not None:
                slope = slope + self.unlearning * closeness * slopes(shown, target, model=other)[inside].sum(0)
            pattern = xp.clip(pattern - self.step_size * (high - low) * xp.sign(slope), low, high)
        return pattern

    def _unlearned(self, clients: MaliciousClients, pattern: Array) -> tuple[Array, float]:
        """Return a model trained to answer triggered images correctly, and its cosine with the global model."""
        data = [
            Examples(paint(each.images, self.marks(each.images, None), pattern, self.blend or 1.0), each.labels)
            for each in clients.data
        ]
        other = clients.model + clients.train(data).mean(0)
        one, two = (np.asarray(to_numpy(each), np.float64) for each in (other, clients.model))
        return other, float(one @ two) / max(float(np.linalg.norm(one) * np.linalg.norm(two)), 1e-12)
