"""Data given by value in Python: arrays, tensors or a `Data`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets.base import Data, Dataset, Notify, Progress, quiet
from f2ed.learning.datasets.frameworks import is_dataset, paired
from f2ed.learning.datasets.tables import data_of

__all__ = ["Given", "are_splits"]

_HELD: dict[str, Data] = {}


class Given(Dataset, frozen=True, tag="given"):
    """Data that were passed as values: `simulate(data=(X, y, X_test, y_test))`; records hold their SHA-256."""

    sha256: str

    @classmethod
    def of(cls, data: Any) -> "Given":
        """Keep data for this process: a `Data`, four arrays or tensors, or a training and a test set.

        These are map-style sets of torch or of `datasets`; a `DatasetDict` with `train` and `test` counts as two.
        """
        if are_splits(data):
            data = (data["train"], data["test"])
        if isinstance(data, tuple | list) and len(data) == 2 and all(map(is_dataset, data)):
            data = paired(*data)
        if not isinstance(data, Data):
            if not (isinstance(data, tuple | list) and len(data) == 4):
                raise ConfigError(
                    f"data: found a {type(data).__name__}; give (samples, labels, test samples, test labels), two "
                    'torch data sets, a name such as "digits", or a table with a kind'
                )
            data = data_of(*data)
        _HELD[data.sha256] = data
        return cls(data.sha256)

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:  # noqa: ARG002  nothing to look for
        """Return the data, in the process to which they were given."""
        if self.sha256 not in _HELD:
            raise ConfigError(
                f"the data with SHA-256 {self.sha256[:12]}… were given by value in another process; give them again"
            )
        return _HELD[self.sha256]


def are_splits(value: Any) -> bool:
    """Return whether a value holds data sets by split, as the `DatasetDict` of Hugging Face does."""
    return isinstance(value, Mapping) and {"train", "test"} <= value.keys() and "kind" not in value
