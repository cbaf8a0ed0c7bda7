"""scikit-learn's digits: 1,797 gray images of 8 x 8, available offline."""

from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import torch

from f2ed.core.errors import MissingExtra
from f2ed.core.randomness import stream
from f2ed.learning.datasets.base import Data, Dataset, Notify, Progress, Samples, quiet

__all__ = ["Digits"]


class Digits(Dataset, frozen=True, tag="digits"):
    """Handwritten digits, 8 x 8, included in scikit-learn; a fixed set of `test` of the 1,797 is held out."""

    test: Annotated[int, msgspec.Meta(ge=1, le=1796)] = 360

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:  # noqa: ARG002  nothing to look for
        """Return the data from the installed package."""
        try:
            from sklearn.datasets import load_digits  # noqa: PLC0415  optional
        except ModuleNotFoundError:
            raise MissingExtra("the data set digits", "train") from None
        images, labels = load_digits(return_X_y=True)
        order = stream(0, "digits").permutation(len(labels))
        pixels = torch.from_numpy((images[order] / 16).astype(np.float32)).reshape(-1, 1, 8, 8)
        targets = torch.from_numpy(labels[order].astype(np.int64))
        return Data(
            train=Samples(pixels[self.test :], targets[self.test :]),
            test=Samples(pixels[: self.test], targets[: self.test]),
            classes=10,
        )
