"""Data sets of other libraries as arrays: map-style torch data sets, and Hugging Face's `datasets`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets.base import Data, Dataset, Notify, Progress, quiet
from f2ed.learning.datasets.tables import data_of, found_file

__all__ = ["HuggingFace", "is_dataset", "paired"]

_LABELS = ("label", "labels", "target", "fine_label")
_SAMPLES = ("image", "img", "pixel_values", "input_ids", "features", "x")


class HuggingFace(Dataset, frozen=True, tag="hugging-face"):
    """A data set that `datasets` saved to disk (`save_to_disk`), with the splits `train` and `test`.

    `sample` and `label` are columns; where they are left out, the usual names are tried. `client` names the client of
    each training sample, for the partition `natural`. Nothing is downloaded.
    """

    folder: str
    sample: str | None = None
    label: str | None = None
    client: str | None = None
    test_split: str = "test"

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:  # noqa: ARG002  read at once
        """Read the folder."""
        try:
            from datasets import load_from_disk  # noqa: PLC0415  an optional dependency
        except ModuleNotFoundError:
            raise ConfigError(
                "hugging-face needs the package datasets, which is not installed; pip install datasets"
            ) from None
        where = found_file(self.folder, folder)
        try:
            splits = load_from_disk(str(where))
        except (FileNotFoundError, ValueError, OSError) as error:
            raise ConfigError(f"{where} is no folder that datasets saved ({error}); use save_to_disk") from None
        if not isinstance(splits, Mapping) or not {"train", self.test_split} <= splits.keys():
            found = ", ".join(splits) if isinstance(splits, Mapping) else "a single split"
            raise ConfigError(f"{where} has {found}; the splits train and {self.test_split} are needed")
        columns = _Columns(self.sample, self.label, self.client)
        return paired(splits["train"], splits[self.test_split], columns)


class _Columns(NamedTuple):
    sample: str | None = None
    label: str | None = None
    client: str | None = None


_USUAL = _Columns()


def is_dataset(value: Any) -> bool:
    """Return whether a value is a map-style data set: one with a length and numbered samples, but not an array."""
    is_array = isinstance(value, np.ndarray | torch.Tensor | str | tuple | list | Mapping)
    return not is_array and hasattr(value, "__len__") and hasattr(value, "__getitem__")


def paired(train: Any, test: Any, columns: _Columns = _USUAL) -> Data:
    """Return a training and a test set of torch or Hugging Face as one data set."""
    (x, y), (test_x, test_y) = (_arrays(split, what, columns) for split, what in ((train, "training"), (test, "test")))
    owners = None if columns.client is None else _column(train, columns.client, "client")
    return data_of(x, y, test_x, test_y, owners=owners)


def _arrays(split: Any, what: str, columns: _Columns) -> tuple[Any, Any]:
    if not len(split):
        raise ConfigError(f"the {what} set has no samples; at least one is needed")
    if hasattr(split, "column_names"):
        label = _chosen(split, columns.label, _LABELS, "label")
        sample = _chosen(split, columns.sample, _SAMPLES, "sample")
        return _images([np.asarray(each) for each in split[sample]], what), _column(split, label, "label")
    items = [split[at] for at in range(len(split))]
    if not all(isinstance(item, tuple | list) and len(item) == 2 for item in items):
        raise ConfigError(
            f"the {what} set does not return pairs of a sample and a label; wrap it so that each item is such a pair"
        )
    pairs = [(_plain(sample), _plain(label)) for sample, label in items]
    return _images([sample for sample, _ in pairs], what), np.stack([label for _, label in pairs])


def _plain(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def _images(samples: list[Any], what: str) -> Any:
    """Stack the samples; images of bytes [height, width(, channels)] become [channels, height, width] from 0 to 1."""
    shapes = {sample.shape for sample in samples}
    if len(shapes) > 1:
        some = " and ".join(map(str, sorted(shapes)[:2]))
        raise ConfigError(
            f"samples of the {what} set have {len(shapes)} different shapes, such as {some}; resize or pad them first"
        )
    stacked = np.stack(samples)
    if stacked.dtype == np.uint8 and stacked.ndim in (3, 4):
        channels = stacked[:, None] if stacked.ndim == 3 else np.moveaxis(stacked, -1, 1)
        return channels.astype(np.float32) / 255
    return stacked


def _chosen(split: Any, stated: str | None, usual: tuple[str, ...], what: str) -> str:
    if stated is not None:
        _check_column(split, stated, what)
        return stated
    found = [name for name in usual if name in split.column_names]
    if not found:
        there = ", ".join(split.column_names)
        raise ConfigError(f"no column is called {', '.join(usual)}; name that of the {what}s, one of {there}")
    return found[0]


def _column(split: Any, name: str, what: str) -> Any:
    _check_column(split, name, what)
    return np.asarray(split[name])


def _check_column(split: Any, name: str, what: str) -> None:
    if name not in split.column_names:
        raise ConfigError(f"there is no column {name!r} for the {what}; there are {', '.join(split.column_names)}")
