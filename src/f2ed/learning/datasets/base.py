"""The data set interface: a frozen setting that returns tensors when called."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from f2ed.core.errors import ConfigError
from f2ed.core.settings import Settings

__all__ = ["Data", "Dataset", "Notify", "Progress", "Samples", "quiet"]

Progress = Callable[[str, int, int | None], None]
"""Receives the file, the bytes so far and, where known, the total."""

Notify = Callable[[str], None]
"""Receives one line of text about what is being done."""


def quiet(*_: object) -> None:
    """Ignore messages and progress."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Images `[n, channels, height, width]` in float32 and their labels `[n]` in int64."""

    images: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        """Refuse images and labels of different numbers."""
        if len(self.images) != len(self.labels):
            raise ConfigError(
                f"found {len(self.images)} images but {len(self.labels)} labels; give one label per image"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Tensor) -> "Samples":
        """Return a copy of the samples at `rows`."""
        return Samples(self.images[rows], self.labels[rows])

    def to(self, device: str | torch.device) -> "Samples":
        """Return the samples on `device`, without a copy if they are already there."""
        return Samples(self.images.to(device), self.labels.to(device))


@dataclass(frozen=True, eq=False)
class Data:
    """A training and a test set with labels `0 … classes-1`.

    `black` and `white` are the values of the raw pixels 0 and 1 after normalization, for attacks that draw into images.
    """

    train: Samples
    test: Samples
    classes: int
    black: float = 0.0
    white: float = 1.0

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    def to(self, device: str | torch.device) -> "Data":
        """Return the data on `device`."""
        return replace(self, train=self.train.to(device), test=self.test.to(device))


class Dataset(Settings, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """A data set by its settings.

    `folder` holds data sets, one subfolder each; data sets that are computed ignore it.
    """

    @abstractmethod
    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:
        """Return the data in memory; data sets of files are searched for, and downloaded if missing."""
