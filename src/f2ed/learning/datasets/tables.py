"""Data of your own as arrays: what they must look like, and how they become a data set."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from f2ed.core.errors import ConfigError
from f2ed.core.imports import folders
from f2ed.core.randomness import stream
from f2ed.learning.datasets.base import Data, Samples

__all__ = ["columns_data", "data_of", "found_file"]

_NUMBERS = "biuf"


def data_of(
    train: Any, labels: Any, test: Any, test_labels: Any, *, owners: Any = None, classes: int | None = None
) -> Data:
    """Return arrays or tensors as a data set: numbers become float32, or int64 where all are integers (tokens).

    Labels are integers from 0; words and negative integers are numbered in their order. Floats, and several numbers
    per sample, are targets and stay as they are. `owners` names the client of each training sample.
    """
    known = None if _are_targets(labels) else _known(_flat(labels, "labels"), _flat(test_labels, "test labels"))
    first, second = (_samples(what, x, y, known) for what, x, y in (("", train, labels), ("test ", test, test_labels)))
    if first.images.shape[1:] != second.images.shape[1:]:
        raise ConfigError(
            f"training samples of shape {tuple(first.images.shape[1:])} and test samples of shape "
            f"{tuple(second.images.shape[1:])}; both must have the same"
        )
    count = _outputs(first, second) if known is None else _classes(known, first, second)
    if classes is not None and classes < count:
        raise ConfigError(f"found {count} classes in the labels, and {classes} were stated; state at least {count}")
    numbered = None if owners is None else np.unique(_flat(owners, "clients"), return_inverse=True)[1]
    if numbered is not None and len(numbered) != len(first):
        raise ConfigError(f"found {len(numbered)} client names for {len(first)} training samples; give one each")
    named = known is not None and not _are_numbers(known)
    return Data(first, second, classes or count, owners=numbered, named=named)


def columns_data(
    where: Path, columns: Mapping[str, Sequence[Any]], *, label: str, client: str | None, test_share: float
) -> Data:
    """Return a table as a data set: one column is the label, one may name the client, the others are numbers.

    A fixed random share of the rows is held out as the test set.
    """
    for name, column in (("label", label), ("client", client)):
        if column is not None and column not in columns:
            raise ConfigError(f"{where} has no column {column!r} for the {name}; it has {', '.join(columns)}")
    features = [name for name in columns if name not in (label, client)]
    if not features:
        raise ConfigError(f"{where} has no column besides {label!r}; at least one number per row is needed")
    rows = np.stack([_numbers(where, name, columns[name]) for name in features], axis=1)
    labels = _labels(columns[label])
    held = max(1, round(test_share * len(rows)))
    if held >= len(rows):
        raise ConfigError(f"{where} has {len(rows)} rows, of which {held} are held out; at least one must be left")
    order = stream(0, "held out").permutation(len(rows))
    out, kept = order[:held], np.sort(order[held:])
    owners = None if client is None else np.asarray(columns[client])[kept]
    return data_of(rows[kept], labels[kept], rows[out], labels[out], owners=owners)


def found_file(file: str, folder: Path | None) -> Path:
    """Return the path of a file, from the working folder, the experiment file's, or the folder of data sets."""
    places = [Path(file), *(place / file for place in (*folders(), folder) if place is not None)]
    for place in places:
        if place.exists():
            return place
    raise ConfigError(f"there is no {file}, neither here nor beside the experiment file or the data; check the path")


def _numbers(where: Path, name: str, column: Sequence[Any]) -> NDArray[np.float32]:
    try:
        return np.asarray(column, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: column {name!r} holds something that is no number: {error}") from None


def _labels(column: Sequence[Any]) -> NDArray[Any]:
    """Return labels as integers where all of them are, as in a CSV file, or as floats; words stay words."""
    found = np.asarray(column)
    if found.dtype.kind not in "UO":
        return found
    for kind in (np.int64, np.float64):
        with suppress(TypeError, ValueError):
            return found.astype(kind)
    return found.astype(str)


def _array(given: Any) -> NDArray[Any]:
    return np.asarray(given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else given)


def _flat(given: Any, what: str) -> NDArray[Any]:
    found = _array(given)
    if found.ndim != 1:
        raise ConfigError(f"{what} of shape {found.shape}; one value per sample is needed, [n]")
    return found


def _are_targets(labels: Any) -> bool:
    """Return whether the values are what a model should answer, not the names of classes."""
    found = _array(labels)
    return found.dtype.kind == "f" or found.ndim > 1


def _known(*labels: NDArray[Any]) -> NDArray[Any]:
    """Return all labels in their order."""
    try:
        return np.unique(np.concatenate(labels))
    except TypeError as error:
        raise ConfigError(f"the labels have no order ({error}); give integers or words, and all of one kind") from None


def _are_numbers(known: NDArray[Any]) -> bool:
    return known.dtype.kind in "biu" and bool(known.min() >= 0)


def _samples(what: str, given: Any, labels: Any, known: NDArray[Any] | None) -> Samples:
    found = _array(given)
    if found.dtype.kind not in _NUMBERS:
        raise ConfigError(f"{what}samples of type {found.dtype}; numbers are needed")
    if found.ndim < 2:
        raise ConfigError(f"{what}samples of shape {found.shape}; one row or more per sample is needed, [n, …]")
    images = _numbers_of(f"{what}samples", found)
    if known is None:
        return Samples(images, _targets(what, labels, len(found)))
    own = _flat(labels, f"{what}labels")
    numbers = own.astype(np.int64) if _are_numbers(known) else np.searchsorted(known, own)
    return Samples(images, torch.from_numpy(numbers))


def _targets(what: str, labels: Any, samples: int) -> torch.Tensor:
    found = _array(labels)
    if found.dtype.kind not in _NUMBERS or found.ndim < 1 or len(found) != samples:
        raise ConfigError(
            f"{what}labels of shape {found.shape} and type {found.dtype} for {samples} samples; numbers are needed, "
            "one row per sample"
        )
    return _numbers_of(f"{what}labels", found)


def _numbers_of(what: str, found: NDArray[Any]) -> torch.Tensor:
    """Return floats and single bytes as float32, and larger integers, which may be tokens, as int64."""
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ConfigError(f"{what} with NaN or infinite values; replace or drop them first")
    tokens = found.dtype.kind in "iu" and found.dtype.itemsize > 1
    return torch.from_numpy(np.ascontiguousarray(found, dtype=np.int64 if tokens else np.float32))


def _outputs(*splits: Samples) -> int:
    """Return how many outputs targets call for: one for each number, or for each token that occurs."""
    if not all(map(len, splits)):
        raise ConfigError("a training or test set without samples; both need at least one")
    first = splits[0]
    if any(split.labels.shape[1:] != first.labels.shape[1:] for split in splits):
        raise ConfigError("training and test targets of different shapes; both must have the same")
    if first.labels.is_floating_point():
        return prod(first.labels.shape[1:])
    parts = [part for split in splits for part in (split.labels, split.images) if not part.is_floating_point()]
    return max(int(part.max()) for part in parts) + 1


def _classes(known: NDArray[Any], *splits: Samples) -> int:
    if not all(map(len, splits)):
        raise ConfigError("a training or test set without samples; both need at least one")
    count = max(int(split.labels.max()) for split in splits) + 1
    if count > max(1000, 10 * len(known)):
        raise ConfigError(
            f"labels up to {count - 1}, of which {len(known)} occur; number the classes from 0, or give floats if they "
            "are numbers to predict"
        )
    return max(count, 2)
