"""Rules that assume a bound on malicious rows, as a share of them or as a count."""

from typing import Annotated, Any, ClassVar, cast

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from f2ed.core.errors import ConfigError, SettingError
from f2ed.estimators.base import Estimator, Weights

__all__ = ["BoundedEstimator"]

Share = Annotated[float, msgspec.Meta(ge=0.0, lt=0.5)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class _Contamination(Estimator, frozen=True):
    contamination: Share | UnsetType = UNSET


class BoundedEstimator(_Contamination, frozen=True, kw_only=True):
    """A rule that takes either `contamination`, the share of rows assumed malicious, or `f`, their number."""

    f: Count | UnsetType = UNSET

    needs: ClassVar[str] = "n >= 2f + 1"
    """What `max_f` solves for f, as errors quote it."""

    def __post_init__(self) -> None:
        kind = type(self).__struct_config__.tag
        if self.contamination is UNSET and self.f is UNSET:
            raise SettingError(f"{kind}: give contamination (a share of the rows, such as 0.1) or f (a number of rows)")
        if self.contamination is not UNSET and self.f is not UNSET:
            raise SettingError(f"{kind}: contamination = {self.contamination} and f = {self.f}; give one of the two")
        super().__post_init__()

    @classmethod
    def checked(cls, name: str, given: Any, hint: Any) -> Any:
        """Say what a count in the place of a share should be."""
        if name == "contamination" and isinstance(given, int | float) and not isinstance(given, bool) and given >= 0.5:
            instead = f"for {given:g} rows write f = {given:g}" if float(given).is_integer() else "for a count write f"
            raise SettingError(f"contamination: a share of the rows below 0.5 is wanted (found {given:g}); {instead}")
        return super().checked(name, given, hint)

    def assumed_f(self, n: int) -> int:
        """Return f, or floor(contamination n) (0.29 of 100 is 29, not 28)."""
        return int(self.contamination * n + 1e-9) if self.contamination is not UNSET else cast("int", self.f)

    def max_f(self, n: int) -> int:
        """Return the largest f that the rule tolerates among n rows; negative where it cannot work on n rows at all."""
        return (n - 1) // 2

    def tolerated(self, n: int) -> int:
        """Return the assumed f, or refuse it where the rule does not tolerate this many."""
        f, largest = self.assumed_f(n), self.max_f(n)
        if f > largest:
            asked = f"contamination = {self.contamination:g} of {n} rows is f = {f}" if self.f is UNSET else f"f = {f}"
            works = f"f = {largest}, contamination = {largest / n:.3g}" if largest >= 0 else "none: use more rows"
            raise ConfigError(
                f"{self.title} tolerates f malicious rows of n only if {self.needs}; here n = {n} and {asked}; "
                f"the largest that works is {works}"
            )
        return f

    def tolerated_weight(self, prior: Weights) -> float:
        """Return the weight of the f heaviest rows, or refuse it if it is half of the whole."""
        f = self.tolerated(len(prior))
        heaviest = float(np.sort(prior)[len(prior) - f :].sum())
        if 2 * heaviest >= prior.sum():
            raise ConfigError(
                f"{self.title} assumes {f} malicious rows of {len(prior)}, and the {f} heaviest have "
                f"{heaviest / prior.sum():.0%} of the weight; less than half is needed: cap the weights, or lower f"
            )
        return heaviest

    def tolerated_share(self, n: int) -> float:
        """Return the contamination, or f / n, on the same condition."""
        f = self.tolerated(n)
        return f / n if self.contamination is UNSET else self.contamination
