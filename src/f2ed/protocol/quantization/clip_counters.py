"""The words after an update that count what was clipped, as digits each of which is a valid coordinate."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.primitives.ring import Words

__all__ = ["Clipped", "coordinates_of", "length", "read", "write"]


class Clipped(NamedTuple):
    """How much was clipped: single coordinates, and whole updates scaled down to the clip norm."""

    coordinates: int
    updates: int


def length(coordinates: int, bits: int) -> int:
    """Return how many words carry an update: its coordinates, digits that can count them, and one for the update."""
    return coordinates - (-coordinates.bit_length() // (bits - 1)) + 1


def coordinates_of(words: int, bits: int) -> int:
    """Undo `length`."""
    for digits in range(1, min(words, 64)):
        if length(words - digits - 1, bits) == words:
            return words - digits - 1
    raise ConfigError(f"a sum of {words} words, which no update of {bits} bits has; was it encoded differently?")


def write(tail: Words, clipped: Clipped, bits: int) -> None:
    """Write the counts of one update into the words after it."""
    rest = clipped.coordinates
    for place in range(len(tail) - 1):
        rest, tail[place] = divmod(rest, 1 << (bits - 1))
    tail[-1] = clipped.updates


def read(tail: npt.NDArray[np.signedinteger[Any]], coordinates: int, survivors: int, bits: int) -> Clipped:
    """Return the counts of all survivors from their sum, or raise `PeerError` if they are impossible."""
    *digits, updates = map(int, tail)
    cut = sum(digit << ((bits - 1) * place) for place, digit in enumerate(digits))
    if min(*digits, updates) < 0 or updates > survivors or cut > survivors * coordinates:
        raise PeerError(
            f"{updates} shortened updates and {cut} cut coordinates were counted; "
            f"{survivors} updates of {coordinates} coordinates have fewer"
        )
    return Clipped(cut, updates)
