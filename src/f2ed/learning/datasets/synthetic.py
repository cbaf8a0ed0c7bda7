"""A synthetic set of any size: noisy copies of one random pattern per class."""

from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import torch

from f2ed.core.randomness import stream
from f2ed.learning.datasets.base import Data, Dataset, Notify, Progress, Samples, quiet

__all__ = ["Synthetic"]

Count = Annotated[int, msgspec.Meta(ge=1)]


class Synthetic(Dataset, frozen=True, tag="synthetic"):
    """Noisy random patterns, for quick runs with any number of samples or classes.

    Classes are equally frequent (to within one sample); `noise` is the standard deviation of the Gaussian added to
    the pattern, before pixels are clipped to [0, 1].
    """

    train: Count = 2000
    test: Count = 500
    classes: Annotated[int, msgspec.Meta(ge=2)] = 10
    side: Count = 8
    noise: Annotated[float, msgspec.Meta(ge=0)] = 0.3
    seed: int = 0

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:  # noqa: ARG002  nothing to look for
        """Return the data; the same seed always gives the same data."""
        patterns = stream(self.seed, "synthetic", "patterns").random((self.classes, 1, self.side, self.side))
        return Data(
            train=self._draw(patterns, self.train, "train"),
            test=self._draw(patterns, self.test, "test"),
            classes=self.classes,
        )

    def _draw(self, patterns: np.ndarray, count: int, split: str) -> Samples:
        rng = stream(self.seed, "synthetic", split)
        labels = rng.permutation(np.arange(count) % self.classes)
        noise = rng.standard_normal((count, *patterns.shape[1:]), dtype=np.float32)
        images = (patterns[labels] + self.noise * noise).clip(0, 1).astype(np.float32)
        return Samples(torch.from_numpy(images), torch.from_numpy(labels))
