"""What noise is worth: zero-concentrated differential privacy per opening, composed and turned into epsilon(delta).

A client opened in a shard's sum loses rho; losses of several openings add up. What is promised, and against whom:

- The neighbor of a federation is the same one with one client's update replaced by zeros, in every round: its whole
  data, not one sample. (Replaced by another update, the sensitivity doubles and rho is four times as large.)
- It holds against whoever sees the opened sums, the server among them, and all that is computed from them: the model.
- Noise of members who work with the server counts for nothing. The fewest honest members of a sum are what is left of
  its survivors without the colluders that the terms allow for; the loss is told for their noise alone.
- Who takes part and who drops out is public and must not depend on data. A client whose training diverges stays silent.

The bound on rho is Theorem 1 of Kairouz, Liu and Steinke (ICML 2021); epsilon is Google's `dp-accounting` (extra `dp`).
"""

from functools import lru_cache
from math import exp, inf, pi, sqrt
from typing import Any

from f2ed.core.errors import ConfigError, MissingExtra

__all__ = ["epsilon", "multiplier_for", "rho"]

_SAMPLER = 2.0**-44
"""The relative error of the chances that the sampler works with."""
_MOST_MULTIPLIER = 1e6


def rho(*, sensitivity: float, deviation: float, honest: int, coordinates: int) -> float:
    """Return the zCDP loss of one opening, where `honest` members each added noise of a deviation; both in steps."""
    if honest < 1:
        raise ConfigError(f"noise of {honest} honest members; at least the client itself must be one")
    # By how much the sum of the members' noise may differ from one discrete Gaussian, in any coordinate.
    apart = 10 * sum(exp(-2 * pi**2 * deviation**2 * k / (k + 1)) for k in range(1, honest)) + honest * _SAMPLER
    return (sensitivity / (sqrt(honest) * deviation) + apart * sqrt(coordinates)) ** 2 / 2


@lru_cache(maxsize=4096)
def epsilon(loss: float, delta: float) -> float:
    """Return the epsilon of a composed zCDP loss at a delta; infinite where no finite one can be told."""
    if not 0 < delta < 1:
        raise ConfigError(f"a delta of {delta}; it must lie between 0 and 1, such as 1e-5")
    if loss == 0:
        return 0.0
    dp = _library()
    accountant = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_SPECIAL)
    return float(accountant.compose(dp.ZCDpEvent(loss)).get_epsilon(delta))


def multiplier_for(wanted: float, *, delta: float, openings: int) -> float:
    """Return the least noise multiplier, to three digits, with which so many openings cost no more epsilon."""
    if not 0 < wanted < inf:
        raise ConfigError(f"an epsilon of {wanted}; it must be positive and finite")
    low, high = 0.0, 1.0
    while epsilon(openings / (2 * high**2), delta) > wanted:
        low, high = high, 2 * high
        if high > _MOST_MULTIPLIER:
            raise ConfigError(f"an epsilon of {wanted} is out of reach at delta {delta}; ask for a larger one")
    while high - low > 5e-4 * high:
        middle = (low + high) / 2
        if epsilon(openings / (2 * middle**2), delta) > wanted:
            low = middle
        else:
            high = middle
    return high


def _library() -> Any:
    try:
        import dp_accounting  # noqa: PLC0415  an optional dependency
        import dp_accounting.rdp  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("accounting for differential privacy", "dp") from None
    return dp_accounting
