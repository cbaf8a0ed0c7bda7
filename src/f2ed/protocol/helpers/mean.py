"""From the opened sum to the mean: range, length, whole steps."""

from math import sqrt

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import PeerError
from f2ed.protocol.helpers.field import Elements, centered
from f2ed.protocol.helpers.shares import SMUDGE
from f2ed.protocol.helpers.terms import STEPS_PER_CLIP, Terms, encoding_of

__all__ = ["MOST_BLAMED", "beyond_range", "blamed_rows", "mean_of"]

MOST_BLAMED = 16
"""Coordinates that a blame step looks at."""
_LONGEST = 1.5
"""The range tests leave a client about this many clips."""


def beyond_range(total: Elements, kept: int) -> tuple[int, ...]:
    """Return the coordinates, at most a few and the largest first, that no sum of so many honest updates has."""
    sizes = np.abs(centered(total))
    offending = np.flatnonzero(sizes > kept * STEPS_PER_CLIP)
    largest = offending[np.argsort(-sizes[offending], kind="stable")[:MOST_BLAMED]]
    return tuple(sorted(int(place) for place in largest))


def blamed_rows(values: Elements) -> tuple[int, ...]:
    """Return the rows with a value that is out of range for certain, though a smudge may hide each value.

    An honest coordinate is at most as long as the clip.
    """
    beyond = np.abs(centered(values)) > 2 * STEPS_PER_CLIP + SMUDGE
    return tuple(int(row) for row in np.flatnonzero(beyond.any(axis=1)))


def mean_of(terms: Terms, total: Elements, kept: int) -> npt.NDArray[np.float32]:
    """Return the mean of so many updates from their sum, or raise `PeerError` if it is too long for honest ones.

    It is rounded to whole steps: what the model moves by has no digits finer than one client's.
    """
    steps = np.rint(centered(total) / kept)
    length = sqrt(float(np.einsum("i,i->", steps, steps)))
    if length > (longest := _LONGEST * STEPS_PER_CLIP + sqrt(terms.coordinates)):
        raise PeerError(f"a mean of {length:.6g} steps; honest updates reach at most {longest:.6g}")
    return (steps * encoding_of(terms).unit).astype(np.float32)
