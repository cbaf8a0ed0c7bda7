"""Privacy accounting: zero-concentrated differential privacy (zCDP) per opened sum, composed, converted to (ε, δ).

A client whose shard's sum is opened spends rho; the rho of several openings adds up. What is protected, against whom:

- Neighboring federations differ in one client's update, replaced by zeros in every round: all of its data, not one
  sample. (Replaced by another update, the sensitivity doubles and rho is four times as large.)
- The guarantee holds against anyone who sees the opened sums, including the server, and for everything computed from
  them, such as the model.
- Noise of members who collude with the server counts for nothing: rho is stated for the noise of the survivors
  minus the colluders that the terms allow for.
- Participation and dropout are public and must not depend on data. A client whose training diverges sends nothing.

The bound on rho is Theorem 1 of Kairouz, Liu and Steinke (ICML 2021); epsilon is Google's `dp-accounting` (extra `dp`).
"""

from functools import lru_cache
from math import exp, inf, pi, sqrt
from typing import Any

from f2ed.core.errors import ConfigError, MissingExtra

__all__ = ["dp_epsilon", "noise_multiplier_for", "rho"]

_SAMPLER_ERROR = 2.0**-44
"""The relative error of the probabilities that the sampler works with."""
_MAX_MULTIPLIER = 1e6


def rho(*, sensitivity: float, deviation: float, honest: int, coordinates: int) -> float:
    """Return the zCDP cost of one opening to which `honest` members each add noise; lengths are in integer steps."""
    if honest < 1:
        raise ConfigError(f"noise of {honest} honest members; at least the client itself must be one")
    # How far the sum of the members' noise may be from one discrete Gaussian, in any coordinate.
    gap = 10 * sum(exp(-2 * pi**2 * deviation**2 * k / (k + 1)) for k in range(1, honest)) + honest * _SAMPLER_ERROR
    return (sensitivity / (sqrt(honest) * deviation) + gap * sqrt(coordinates)) ** 2 / 2


@lru_cache(maxsize=4096)
def dp_epsilon(rho: float, delta: float) -> float:
    """Return the epsilon of a composed zCDP cost at a delta; infinite where there is no finite one."""
    if not 0 < delta < 1:
        raise ConfigError(f"a delta of {delta}; it must lie between 0 and 1, such as 1e-5")
    if rho == 0:
        return 0.0
    dp = _library()
    accountant = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_SPECIAL)
    return float(accountant.compose(dp.ZCDpEvent(rho)).get_epsilon(delta))


def noise_multiplier_for(epsilon: float, *, delta: float, openings: int) -> float:
    """Return the smallest noise multiplier, to three digits, at which this many openings cost at most this epsilon."""
    if not 0 < epsilon < inf:
        raise ConfigError(f"an epsilon of {epsilon}; it must be positive and finite")
    low, high = 0.0, 1.0
    while dp_epsilon(openings / (2 * high**2), delta) > epsilon:
        low, high = high, 2 * high
        if high > _MAX_MULTIPLIER:
            raise ConfigError(f"an epsilon of {epsilon} is out of reach at delta {delta}; ask for a larger one")
    while high - low > 5e-4 * high:
        middle = (low + high) / 2
        if dp_epsilon(openings / (2 * middle**2), delta) > epsilon:
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
