"""Data of your own in files: NumPy archives, tables as CSV or Parquet, and folders of images."""

import csv
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.learning.datasets.base import Data, Dataset, Notify, Progress, quiet
from f2ed.learning.datasets.tables import columns_data, data_of, found_file

__all__ = ["Csv", "ImageFolder", "Npz", "Parquet"]

Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
_IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"}


class Npz(Dataset, frozen=True, tag="npz"):
    """Arrays in a NumPy archive: `x_train`, `y_train`, `x_test`, `y_test`, and `client` where samples have owners."""

    file: str

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:  # noqa: ARG002  nothing to download
        """Read the archive; pickled objects are refused."""
        path = found_file(self.file, folder)
        try:
            with np.load(path, allow_pickle=False) as held:
                arrays = {name: held[name] for name in held.files}
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"{path} is not a NumPy archive of plain arrays: {error}") from None
        wanted = ("x_train", "y_train", "x_test", "y_test")
        if missing := [name for name in wanted if name not in arrays]:
            raise ConfigError(f"{path} has no array {missing[0]!r}; it holds {', '.join(arrays)}")
        return data_of(*(arrays[name] for name in wanted), owners=arrays.get("client"))


class _Table(Dataset, frozen=True, kw_only=True):
    file: str
    label: str = "label"
    client: str | None = None
    """The column that names the client of each row, for the partition `natural`."""
    test_share: Share = 0.2


class Csv(_Table, frozen=True, kw_only=True, tag="csv"):
    """A CSV file with a header: the column `label`, optionally a column for the client, and numbers."""

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:  # noqa: ARG002  nothing to download
        """Read the file."""
        path = found_file(self.file, folder)
        try:
            with path.open(newline="", encoding="utf-8") as lines:
                header, *rows = csv.reader(lines)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read as CSV: {error}") from None
        if wrong := next((at for at, row in enumerate(rows, 2) if len(row) != len(header)), None):
            raise ConfigError(f"{path}, row {wrong}: found {len(rows[wrong - 2])} values for {len(header)} columns")
        columns = {name: [row[at] for row in rows] for at, name in enumerate(header)}
        return columns_data(path, columns, label=self.label, client=self.client, test_share=self.test_share)


class Parquet(_Table, frozen=True, kw_only=True, tag="parquet"):
    """A Parquet file: the column `label`, optionally a column for the client, and numbers (needs pyarrow)."""

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:  # noqa: ARG002  nothing to download
        """Read the file."""
        try:
            from pyarrow import ArrowInvalid, parquet  # noqa: PLC0415  optional
        except ModuleNotFoundError:
            raise MissingExtra("the data kind parquet", "parquet") from None
        path = found_file(self.file, folder)
        try:
            table = parquet.read_table(path)
        except (OSError, ArrowInvalid) as error:
            raise ConfigError(f"{path} cannot be read as Parquet: {error}") from None
        columns = {name: table[name].to_numpy() for name in table.column_names}
        return columns_data(path, columns, label=self.label, client=self.client, test_share=self.test_share)


class ImageFolder(Dataset, frozen=True, tag="image-folder"):
    """Images in `train/<class>/` and `test/<class>/`, scaled to `side` pixels (needs Pillow)."""

    file: str
    side: Annotated[int, msgspec.Meta(ge=1)] = 32
    gray: bool = False

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:  # noqa: ARG002  nothing to download
        """Read all images into memory."""
        root = found_file(self.file, folder)
        (train, labels), (test, test_labels) = (self._split(root / name) for name in ("train", "test"))
        return data_of(train, labels, test, test_labels)

    def _split(self, root: Path) -> tuple[np.ndarray, np.ndarray]:
        paths = sorted(path for path in root.glob("*/*") if path.suffix.lower() in _IMAGES)
        if not paths:
            raise ConfigError(f"{root} holds no images in folders of classes, as in {root}/cat/1.png")
        return np.stack([self._pixels(path) for path in paths]), np.array([path.parent.name for path in paths])

    def _pixels(self, path: Path) -> Any:
        try:
            from PIL import Image, UnidentifiedImageError  # noqa: PLC0415  optional
        except ModuleNotFoundError:
            raise MissingExtra("the data kind image-folder", "report") from None
        try:
            with Image.open(path) as image:
                sized = image.convert("L" if self.gray else "RGB").resize((self.side, self.side))
                pixels = np.asarray(sized, dtype=np.float32) / 255
        except (OSError, UnidentifiedImageError) as error:
            raise ConfigError(f"{path} cannot be read as an image: {error}") from None
        return pixels[None] if self.gray else pixels.transpose(2, 0, 1)
