"""Which arrays of a model make up an update, in which order, and at which value each is clipped.

An update is one vector: first the trained arrays, then the buffers, which are statistics that a forward pass updates
(BatchNorm's running mean and variance). Buffers have their own range, so they are clipped on their own; and they are
estimated on their own, so that they do not enter the distances by which a robust rule judges the trained part.
"""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Annotated, Any, Literal, NamedTuple, final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from f2ed.core.errors import ConfigError
from f2ed.core.settings import Settings

__all__ = ["BUFFER_NAMES", "ArrayClip", "BufferPolicy", "Buffers", "UpdatePlan", "plan_update"]

BufferPolicy = Literal["average", "keep", "local"]
"""Buffers are averaged like the rest, stay as the server has them, or stay on each node (FedBN, Li et al. 2021)."""

BUFFER_NAMES = ("*running_mean", "*running_var", "*moving_mean", "*moving_variance")
"""What torch and Keras call the statistics of a batch normalization."""
_VARIANCES = ("*running_var", "*moving_variance")
"""Those of them that are never negative: where they are near zero, rounding alone could make them so."""

Values = npt.NDArray[np.floating[Any]]
Pattern = Annotated[str, Meta(min_length=1, max_length=200)]
Clip = Annotated[float, Meta(ge=1e-30, le=1e30)]


@final
class ArrayClip(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The largest magnitude of a coordinate in the arrays of some names."""

    names: Pattern
    """A pattern: * stands for any text."""
    clip_value: Clip


@final
class Buffers(Settings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What happens to the buffers of a model, and at which value single arrays are clipped."""

    policy: BufferPolicy = "average"
    clip_value: Clip = 10.0
    """Of a coordinate of a buffer's change in one round."""
    names: Annotated[tuple[Pattern, ...], Meta(max_length=100)] = BUFFER_NAMES
    """Patterns for the names of the arrays that are buffers."""
    clips: Annotated[tuple[ArrayClip, ...], Meta(max_length=100)] = ()
    """For single arrays, trained or not; the first pattern that fits counts."""

    def is_buffer(self, name: str) -> bool:
        """Return whether an array of this name is a buffer."""
        return _fits(name, self.names)

    def clip_of(self, name: str, *, trained: float, buffer: bool) -> float:
        """Return the value at which an array is clipped, where others of the trained part are clipped at `trained`."""
        own = next((each.clip_value for each in self.clips if fnmatchcase(name, each.names)), None)
        return own if own is not None else self.clip_value if buffer else trained


class UpdatePlan(NamedTuple):
    """How the arrays of a model become one vector; places count the arrays in the model's order."""

    places: tuple[int, ...]
    """The arrays that travel, in the vector's order: trained ones, then buffers."""
    staying: tuple[int, ...]
    """The arrays that do not travel, since they stay with the server or with the node."""
    sizes: tuple[int, ...]
    """The number of coordinates of each array that travels."""
    trained: int
    """The number of leading coordinates that are trained; the rest are buffers."""
    factors: tuple[float, ...]
    """By array: its own clip, as a multiple of the clip of the others."""
    variances: frozenset[int] = frozenset()
    """The arrays that travel and stay at zero or above."""

    @property
    def coordinates(self) -> int:
        """The length of the vector."""
        return sum(self.sizes)

    @property
    def scales(self) -> bool:
        """Whether an array has a clip of its own."""
        return set(self.factors) != {1.0}

    @property
    def trained_places(self) -> frozenset[int]:
        """The arrays that are trained."""
        ends = accumulate(self.sizes)
        return frozenset(place for place, end in zip(self.places, ends, strict=True) if end <= self.trained)

    def spans(self) -> Iterator[tuple[int, slice]]:
        """Yield each array that travels, with its coordinates."""
        for place, size, end in zip(self.places, self.sizes, accumulate(self.sizes), strict=True):
            yield place, slice(end - size, end)

    def narrowed(self, updates: Values) -> Values:
        """Return vectors [..., d] with each array divided by its factor, as they are clipped and encoded."""
        out = updates.copy()
        for part, factor in self._scaled(out):
            np.divide(part, part.dtype.type(factor), out=part)
        return out

    def widen(self, means: Values) -> None:
        """Undo `narrowed` in place."""
        for part, factor in self._scaled(means):
            np.multiply(part, part.dtype.type(factor), out=part)

    def _scaled(self, vectors: Values) -> Iterable[tuple[Values, float]]:
        for (_, span), factor in zip(self.spans(), self.factors, strict=True):
            if factor != 1.0:
                yield vectors[..., span], factor


def plan_update(
    arrays: Sequence[tuple[str, int]],
    buffers: Buffers | None,
    *,
    clip_value: float,
    are_buffers: Sequence[bool] | None = None,
) -> UpdatePlan:
    """Plan the update of a model with these arrays of floats, each a name and a size; empty ones are left out.

    Without `buffers` every array is part of one vector in the model's order. `are_buffers` says which arrays are
    buffers where that is known otherwise than by their names.
    """
    if buffers is None:
        full = [place for place, (_, size) in enumerate(arrays) if size]
        sizes = tuple(arrays[place][1] for place in full)
        return _checked(UpdatePlan(tuple(full), (), sizes, sum(sizes), (1.0,) * len(full)))
    known = [buffers.is_buffer(name) for name, _ in arrays] if are_buffers is None else list(are_buffers)
    trained = [place for place, (_, size) in enumerate(arrays) if size and not known[place]]
    others = [place for place, (_, size) in enumerate(arrays) if size and known[place]]
    averaged = buffers.policy == "average"
    places = tuple(trained + others if averaged else trained)
    clips = (buffers.clip_of(arrays[place][0], trained=clip_value, buffer=known[place]) for place in places)
    return _checked(
        UpdatePlan(
            places,
            () if averaged else tuple(others),
            tuple(arrays[place][1] for place in places),
            sum(arrays[place][1] for place in trained),
            tuple(_factor(clip, clip_value) for clip in clips),
            frozenset(place for place in places if known[place] and _fits(arrays[place][0], _VARIANCES)),
        )
    )


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _factor(clip: float, clip_value: float) -> float:
    """Return the ratio as float32, in which it is applied, so that both sides and every type of array agree."""
    ratio = clip / clip_value
    if not 1e-30 <= ratio <= 1e30:
        raise ConfigError(f"a clip of {clip:g} for an array, where others have {clip_value:g}; choose closer values")
    return float(np.float32(ratio))


def _checked(plan: UpdatePlan) -> UpdatePlan:
    if not plan.trained:
        raise ConfigError("a model without a single array of floats that is trained; there is nothing to average")
    return plan
