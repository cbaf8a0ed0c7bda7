"""A small network that changes images, with its gradients written out: attacks know no other model."""

from typing import NamedTuple

import numpy as np

from f2ed.core.arrays import Array, like, namespace

__all__ = ["Generator"]

_BETAS, _EPSILON = (0.9, 0.999), 1e-8


class Generator(NamedTuple):
    """A dense network of one hidden layer from an image to a change of every pixel between -1 and 1.

    `moments` and `steps` are Adam's.
    """

    weights: tuple[Array, Array, Array, Array]
    moments: tuple[tuple[Array, Array], ...]
    steps: int = 0

    @classmethod
    def new(cls, images: Array, hidden: int, rng: np.random.Generator) -> "Generator":
        """Return a generator for images of this shape that changes nearly nothing yet."""
        pixels = int(np.prod(images.shape[1:]))
        drawn = (
            rng.normal(size=(pixels, hidden)) / np.sqrt(pixels),
            np.zeros(hidden),
            rng.normal(size=(hidden, pixels)) * 0.01,
            np.zeros(pixels),
        )
        one, two, three, four = (like(images, each) for each in drawn)
        weights = (one, two, three, four)
        return cls(weights, tuple((each * 0, each * 0) for each in weights))

    def __call__(self, images: Array) -> Array:
        """Return the change of each image."""
        return self._forward(images)[1].reshape(images.shape)

    def improved(self, images: Array, slopes: Array, rate: float) -> "Generator":
        """Return the generator after a step of Adam against the slope of a loss with respect to the changed images."""
        hidden, out = self._forward(images)
        flat = images.reshape(len(images), -1)
        above = slopes.reshape(len(images), -1) * (1 - out * out) / len(images)
        below = (above @ self.weights[2].T) * (hidden > 0)
        gradients = (flat.T @ below, below.sum(0), hidden.T @ above, above.sum(0))
        (first, second), steps = _BETAS, self.steps + 1
        moments = tuple(
            (first * m + (1 - first) * g, second * v + (1 - second) * g * g)
            for (m, v), g in zip(self.moments, gradients, strict=True)
        )
        one, two, three, four = (
            weight - rate * (m / (1 - first**steps)) / ((v / (1 - second**steps)) ** 0.5 + _EPSILON)
            for weight, (m, v) in zip(self.weights, moments, strict=True)
        )
        return Generator((one, two, three, four), moments, steps)

    def _forward(self, images: Array) -> tuple[Array, Array]:
        one, two, three, four = self.weights
        before = images.reshape(len(images), -1) @ one + two
        hidden = before * (before > 0)
        return hidden, namespace(images).tanh(hidden @ three + four)
