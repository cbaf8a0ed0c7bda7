"""A shuffle that every party can recompute: SHA-256 in counter mode drives Fisher and Yates.

The order depends on the key alone, not on a library's generator or its version, so that a client written in
another language computes the same assignment.
"""

import hashlib
from collections.abc import Iterator

__all__ = ["drawn", "shuffled"]

_WORD = 2**64


def shuffled(count: int, key: bytes) -> list[int]:
    """Return the positions 0 … count - 1 in the order that the key determines; every order is equally likely."""
    words = _words(key)
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        other = _below(last + 1, words)
        order[last], order[other] = order[other], order[last]
    return order


def drawn(count: int, population: int, key: bytes) -> list[int]:
    """Return so many of the positions 0 … population - 1, in the order drawn; every choice is equally likely.

    The first steps of a shuffle, in which only the places that moved are kept: the cost follows the count alone.
    """
    words = _words(key)
    moved: dict[int, int] = {}
    found = []
    for place in range(count):
        other = place + _below(population - place, words)
        found.append(moved.get(other, other))
        moved[other] = moved.get(place, place)
    return found


def _words(key: bytes) -> Iterator[int]:
    """Yield the big-endian 64-bit words of SHA-256(key, 0), SHA-256(key, 1) and so on."""
    counter = 0
    while True:
        block = hashlib.sha256(key + counter.to_bytes(8, "big")).digest()
        for start in range(0, len(block), 8):
            yield int.from_bytes(block[start : start + 8], "big")
        counter += 1


def _below(bound: int, words: Iterator[int]) -> int:
    """Draw from 0 … bound - 1; words from the last, incomplete run of `bound` are skipped, as they would favor 0."""
    fair = _WORD - _WORD % bound
    return next(word for word in words if word < fair) % bound
