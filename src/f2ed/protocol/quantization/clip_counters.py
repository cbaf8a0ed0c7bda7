"""The words behind an update that count what was clipped, in digits each of which is a legal coordinate."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.primitives.ring import Words

__all__ = ["Clipped", "coordinates_of", "length", "read", "write"]


class Clipped(NamedTuple):
    """How much was cut off: single coordinates, and updates shortened as a whole."""

    coordinates: int
    updates: int


def length(coordinates: int, bits: int) -> int:
    """Return how many words carry an update: its coordinates, digits that can count them, and a word for the update."""
    return coordinates - (-coordinates.bit_length() // (bits - 1)) + 1


def coordinates_of(words: int, bits: int) -> int:
    """Undo `length`."""
    for digits in range(1, min(words, 64)):
        if length(words - digits - 1, bits) == words:
            return words - digits - 1
    raise ConfigError(f"a sum of {words} words, which no update of {bits} bits has; was it encoded otherwise?")


def write(tail: Words, clipped: Clipped, bits: int) -> None:
    """Write the counts of one update into the words behind it."""
    rest = clipped.coordinates
    for place in range(len(tail) - 1):
        rest, tail[place] = divmod(rest, 1 << (bits - 1))
    tail[-1] = clipped.updates


def read(tail: npt.NDArray[np.signedinteger[Any]], coordinates: int, survivors: int, bits: int) -> Clipped:
    """Return the counts of all survivors from their sum, or raise `PeerError` if they cannot have clipped so much."""
    *digits, updates = map(int, tail)
    cut = sum(digit << ((bits - 1) * place) for place, digit in enumerate(digits))
    if min(*digits, updates) < 0 or updates > survivors or cut > survivors * coordinates:
        raise PeerError(
            f"{updates} shortened updates and {cut} cut coordinates were counted; "
            f"{survivors} updates of {coordinates} coordinates have fewer"
        )
    return Clipped(cut, updates)
