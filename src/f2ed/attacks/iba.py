"""IBA, a backdoor whose trigger is a faint change of every image (Nguyen et al., NeurIPS 2023), simplified."""

from dataclasses import replace
from typing import Annotated

import msgspec

from f2ed.attacks._common.backdoor import Count, Poisoning, check_label
from f2ed.attacks._common.generator import Generator
from f2ed.attacks._common.goal import EvaluationData, Examples, Goal, Palette
from f2ed.attacks._common.learning import learning, sample
from f2ed.attacks._common.training import MaliciousClients
from f2ed.attacks._common.triggers import pixels_of, relabeled
from f2ed.attacks.base import Positive
from f2ed.attacks.neurotoxin import seldom_changed
from f2ed.core.arrays import Array, namespace

__all__ = ["IBA"]


class IBA(Poisoning, frozen=True, kw_only=True, tag="iba"):
    """Learn a generator that changes each pixel by at most `reach`, and teach the model to call what it makes `target`.

    In every round the malicious clients pool `samples` images and train the generator, a dense network with `hidden`
    units, against the global model with `steps` steps of Adam. Then they train on images that it changed, in the share
    `ratio` of weights that clean data change least. The original uses an autoencoder or U-Net, goes on with the
    generator of the round before, and chooses the weights by their changes in past rounds; success is measured with
    the generator of the round.
    """

    title = "IBA"
    family = "backdoor"
    paper = "after Nguyen et al., NeurIPS 2023"

    reach: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.1
    hidden: Count = 32
    steps: Count = 40
    rate: Positive = 0.01
    samples: Count = 256
    ratio: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.95

    def goal(self, evaluation: EvaluationData) -> Goal:
        """Ask for the target label on every test image; before the first round none is changed."""
        check_label("target", self.target, evaluation.classes)
        images, labels = evaluation.test
        pixels_of(images)
        return Goal(images, namespace(labels).full_like(labels, self.target), labels, clean=images)

    def learn(self, clients: MaliciousClients) -> Goal:
        """Train the generator, and change the test images with it."""
        goal, clean, slopes = learning(clients)
        data = sample(clients, self.samples)
        target = namespace(data.labels).full_like(data.labels, self.target)
        generator = Generator.new(data.images, self.hidden, clients.rng)
        for _ in range(self.steps):
            shown = self._changed(data.images, generator, clients.palette)
            generator = generator.improved(data.images, slopes(shown, target), self.rate)
        return replace(goal, images=self._changed(clean, generator, clients.palette), learned=generator)

    def poison(self, clients: MaliciousClients) -> list[Examples]:
        """Change a share of each client's images."""
        generator = None if clients.goal is None else clients.goal.learned

        def mark(images: Array) -> Array:
            return images if generator is None else self._changed(images, generator, clients.palette)

        return [relabeled(data, self.share, self.target, clients.rng, mark) for data in clients.data]

    def train(self, clients: MaliciousClients) -> Array:
        """Train the weights that honest clients seldom change."""
        mask = None if self.ratio == 1 else seldom_changed(clients, self.ratio)
        return clients.train(self.poison(clients), overrides=self.overrides, mask=mask)

    def _changed(self, images: Array, generator: Generator, palette: Palette) -> Array:
        low, high = sorted((palette.black, palette.white))
        return namespace(images).clip(images + self.reach * (high - low) * generator(images), low, high)
