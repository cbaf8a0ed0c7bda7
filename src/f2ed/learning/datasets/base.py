"""The data set interface: a frozen setting that returns tensors when called."""

import hashlib
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from f2ed.core.errors import ConfigError
from f2ed.core.settings import Settings

__all__ = ["Data", "Dataset", "Notify", "Progress", "Samples", "image_shape", "quiet"]

Progress = Callable[[str, int, int | None], None]
"""Receives the file, the bytes so far and, where known, the total."""

Notify = Callable[[str], None]
"""Receives one line of text about what is being done."""


def quiet(*_: object) -> None:
    """Ignore messages and progress."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples `[n, …]`, for images `[n, channels, height, width]` in float32, and their labels `[n]` in int64.

    With a loss other than cross-entropy, the labels are the targets: numbers in float32, or tokens `[n, t]`.
    """

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
    """A training and a test set with labels `0 … classes-1`; with targets that are numbers, `classes` of them each.

    `black` and `white` are the values of the raw pixels 0 and 1 after normalization, for attacks that draw into images.
    """

    train: Samples
    test: Samples
    classes: int
    black: float = 0.0
    white: float = 1.0

    owners: NDArray[np.int64] | None = None
    """The client of each training sample, where the data say so; see the partition `natural`."""
    origin: "Dataset | None" = None
    """The setting that loaded them; None for data that were made by hand."""
    named: bool = False
    """Whether the labels were words or negative integers, and were numbered."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample: channels, height and width of an image."""
        return tuple(self.train.images.shape[1:])

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of all samples, labels and owners."""
        found = hashlib.sha256()
        for split in (self.train, self.test):
            for part in (split.images, split.labels):
                found.update(f"{part.dtype} {tuple(part.shape)} ".encode())
                found.update(np.ascontiguousarray(part.cpu().numpy()).data)
        found.update(b"" if self.owners is None else np.ascontiguousarray(self.owners).data)
        return found.hexdigest()

    def to(self, device: str | torch.device) -> "Data":
        """Return the data on `device`."""
        return replace(self, train=self.train.to(device), test=self.test.to(device))


class Dataset(Settings, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """A data set by its settings.

    `folder` holds data sets, one subfolder each; data sets that are computed ignore it.
    """

    def load(self, folder: Path | str | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:
        """Return the data, marked as what this setting describes."""
        place = None if folder is None else Path(folder)
        return replace(self(place, progress=progress, notify=notify), origin=self)

    @abstractmethod
    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:
        """Return the data in memory; data sets of files are searched for, and downloaded if missing."""


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return channels, height and width, or refuse samples that are not images."""
    if len(shape) != 3:
        raise ConfigError(f"samples of shape {shape}; images (channels, height, width) are needed here")
    channels, height, width = shape
    return channels, height, width
