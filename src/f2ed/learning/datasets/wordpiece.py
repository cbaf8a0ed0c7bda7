"""The tokens of BERT and its kin: words in pieces of a fixed vocabulary (Wu et al. 2016)."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from f2ed.core.errors import ConfigError

__all__ = ["PAD", "WordPiece"]

PAD = 0
_LONGEST = 100
"""Longer words count as unknown."""


class WordPiece:
    """A vocabulary, one piece per line; pieces that continue a word start with `##`."""

    def __init__(self, vocabulary: str) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary.split("\n")) if piece}
        if missing := [piece for piece in ("[PAD]", "[UNK]", "[CLS]", "[SEP]") if piece not in self._numbers]:
            raise ConfigError(f"the vocabulary has no {missing[0]}; it is not one of WordPiece")
        self._known: dict[str, tuple[int, ...]] = {}

    def __call__(self, texts: Sequence[str], length: int) -> NDArray[np.int64]:
        """Return `[n, length]` tokens: a start, the first words of each text in lower case, an end, then padding."""
        out = np.full((len(texts), length), PAD, dtype=np.int64)
        for row, text in zip(out, texts, strict=True):
            tokens = [self._numbers["[CLS]"]]
            for word in text.lower().split():
                tokens += self._pieces(word)
                if len(tokens) >= length:
                    break
            tokens = [*tokens[: length - 1], self._numbers["[SEP]"]]
            row[: len(tokens)] = tokens
        return out

    def _pieces(self, word: str) -> tuple[int, ...]:
        if word not in self._known:
            found = tuple(self._longest_first(word)) if len(word) <= _LONGEST else (-1,)
            self._known[word] = (self._numbers["[UNK]"],) if -1 in found else found
        return self._known[word]

    def _longest_first(self, word: str) -> Iterator[int]:
        """Yield the longest pieces from the left; -1 where none fits."""
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self._numbers), None)
            if end is None:
                yield -1
                return
            yield self._numbers[mark + word[start:end]]
            start = end
