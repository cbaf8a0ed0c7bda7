"""Learning-rate schedules: by which factor a rate is multiplied in a round, for clients and for the server alike."""

from abc import abstractmethod
from math import cos, pi
from typing import Annotated

import msgspec

from f2ed.core.settings import Settings

__all__ = ["AnyRateSchedule", "ConstantRate", "CosineRate", "RateSchedule", "StepRate"]

Count = Annotated[int, msgspec.Meta(ge=1)]


class RateSchedule(Settings, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """A learning rate over the rounds; with `warmup` it first rises linearly to its full value in so many rounds."""

    warmup: Annotated[int, msgspec.Meta(ge=0)] = 0

    def __call__(self, round: int, /) -> float:  # noqa: A002  the paper's word
        """Return the factor in a round, which counts from 0: 1 is the full rate."""
        if round < self.warmup:
            return (round + 1) / (self.warmup + 1)
        return self.after(round - self.warmup)

    @abstractmethod
    def after(self, rounds: int) -> float:
        """Return the factor this many rounds after the warm-up."""


class ConstantRate(RateSchedule, frozen=True, tag="constant"):
    """The full rate in every round."""

    def after(self, rounds: int) -> float:  # noqa: ARG002  every schedule is called alike
        """Return 1."""
        return 1.0


class StepRate(RateSchedule, frozen=True, tag="step"):
    """The rate is multiplied by `factor` every so many rounds."""

    every: Count
    factor: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.1

    def after(self, rounds: int) -> float:
        """Return a power of the factor."""
        return float(self.factor ** (rounds // self.every))


class CosineRate(RateSchedule, frozen=True, tag="cosine"):
    """The rate falls along half a cosine to the share `final` in so many rounds, and stays there."""

    rounds: Count
    final: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.01

    def after(self, rounds: int) -> float:
        """Return a share between 1 and the final one."""
        fallen = (1 - cos(pi * min(1.0, rounds / self.rounds))) / 2
        return 1 - fallen * (1 - self.final)


AnyRateSchedule = ConstantRate | StepRate | CosineRate
