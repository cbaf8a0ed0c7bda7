"""Integer noise for differential privacy: the discrete Gaussian (Canonne, Kamath and Steinke, NeurIPS 2020).

With deviation s, the probability of k is proportional to exp(-k²/2s²). We use it instead of the Skellam distribution
because one number states its privacy, the zCDP of the continuous Gaussian, regardless of the L1 norm of an update. A
sum of several is not exactly a discrete Gaussian, but from s = 2 each on the difference is below 10⁻¹⁵ for ten of them
(Kairouz, Liu and Steinke, ICML 2021), and `accountant.rho` accounts for it.

The sampler takes its bits from AES-256-CTR and none from a statistical generator. Floating point determines no value,
only probabilities, each to a relative error below 2⁻⁴⁴; apart from that, the samples differ from the true distribution
by less than 2⁻⁶³ in total variation (probabilities come in steps of 2⁻⁷³, and the tails beyond 10·s are cut off).
"""

from functools import lru_cache
from math import ceil, exp, floor, isfinite, log, log2, sqrt
from typing import Any, final

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError
from f2ed.protocol.primitives.crypto import Keystream

__all__ = ["MIN_DEVIATION", "TAILS", "DiscreteGaussian", "discrete_gaussian", "rounded_norm"]

Integers = npt.NDArray[np.signedinteger[Any]]

MIN_DEVIATION = 0.5
"""In integer steps; for smaller noise, no bound on sums of it is known."""
TAILS = 10
"""Honest noise stays within this many standard deviations, except with probability below 2⁻⁷⁰ per coordinate."""

_BLOCK = 1 << 14
_CELL_BITS = 9
_CELLS = 1 << _CELL_BITS
_STRIPS_PER_DEVIATION = 16
_ROUNDING_FAILURE = 2.0**-20
"""The probability, at most, that rounding makes an update too long and it must be rounded again."""


def rounded_norm(norm: float, coordinates: int) -> float:
    """Bound the L2 norm of a vector of at most this norm, once its coordinates are rounded to integers at random.

    The smaller of norm + √d, which always holds, and a bound that fails with probability below 2⁻²⁰: callers round
    again in that case, as in the conditional rounding of Kairouz et al.
    """
    likely = norm**2 + coordinates / 4 + sqrt(2 * log(1 / _ROUNDING_FAILURE)) * (norm + sqrt(coordinates) / 2)
    return min(norm + sqrt(coordinates), sqrt(likely))


@lru_cache(maxsize=64)
def discrete_gaussian(deviation: float) -> "DiscreteGaussian":
    """Return the sampler of a deviation; its table takes a millisecond to build and is cached."""
    return DiscreteGaussian(deviation)


@final
class DiscreteGaussian:
    """Samples integers with probabilities proportional to exp(-k²/2s²).

    The magnitudes are divided into strips of 2^j integers, about s/16 wide or one integer. A strip is drawn by the
    weight of its smallest member (an alias table in exact integers), then a member of it uniformly, which is accepted
    with probability equal to the ratio of their weights, never below 1/2. About 98 % are accepted.
    """

    def __init__(self, deviation: float) -> None:
        if not (isfinite(deviation) and MIN_DEVIATION <= deviation <= 2**50):
            raise ConfigError(
                f"noise of {deviation:g} steps; it must be from {MIN_DEVIATION} to 2^50; "
                "use more fixed-point bits if it is smaller, fewer if it is larger"
            )
        self.deviation = deviation
        self._width_bits = max(0, floor(log2(deviation / _STRIPS_PER_DEVIATION)))
        width = 1 << self._width_bits
        strips = ceil(TAILS * deviation / width)
        self.largest: int = width * strips - 1
        """The largest magnitude that is ever drawn."""
        chances = [exp(-((width * strip / deviation) ** 2) / 2) for strip in range(strips)]
        self._thresholds, self._aliases = _alias_table(chances)
        self._rate = 0.5 / deviation**2

    def add(self, words: Integers, stream: Keystream) -> None:
        """Add a sample to every word in place; the stream determines all of them."""
        for start in range(0, len(words), _BLOCK):
            block = words[start : start + _BLOCK]
            done = 0
            while done < len(block):
                drawn = self._draw(len(block) - done, stream)[: len(block) - done]
                block[done : done + len(drawn)] += drawn.astype(words.dtype)
                done += len(drawn)

    def _draw(self, wanted: int, stream: Keystream) -> npt.NDArray[np.int64]:
        """Return about as many samples as wanted."""
        draws = np.empty((3, wanted + wanted // 32 + 32), "<u8")
        stream.fill(draws.reshape(-1).view(np.uint8).data)
        place, choice, keep = draws
        negative = (place & 1).astype(bool)
        cell = ((place >> 1) & (_CELLS - 1)).astype(np.intp)
        strip = np.where(choice < self._thresholds.take(cell), cell, self._aliases.take(cell))
        nearest = strip << self._width_bits
        beyond = ((place >> (1 + _CELL_BITS)) & ((1 << self._width_bits) - 1)).astype(np.int64)
        # (nearest + beyond)² - nearest², the exponent of the acceptance probability.
        lighter = (2 * nearest + beyond).astype(np.float64)
        lighter *= beyond
        lighter *= -self._rate
        kept = (keep >> 11) * 2.0**-53 < np.exp(lighter)
        magnitude = nearest + beyond
        kept &= ~(negative & (magnitude == 0))  # Zero has one sign, or it would be drawn twice as often.
        return np.where(negative, -magnitude, magnitude)[kept]


def _alias_table(chances: list[float]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.intp]]:
    """Return each cell's 64-bit threshold, below which it is its own outcome, and its alias above it (Walker 1974)."""
    full, unit = 1 << 64, (_CELLS << 64) / sum(chances)
    weights = [int(chance * unit) for chance in chances] + [0] * (_CELLS - len(chances))
    weights[0] += _CELLS * full - sum(weights)  # The remainder goes where its relative effect is smallest.
    aliases = list(range(_CELLS))
    poor = [cell for cell, weight in enumerate(weights) if weight < full]
    rich = [cell for cell, weight in enumerate(weights) if weight > full]
    while poor:
        cell, giver = poor.pop(), rich[-1]
        aliases[cell] = giver
        weights[giver] -= full - weights[cell]
        if weights[giver] <= full:
            rich.pop()
            if weights[giver] < full:
                poor.append(giver)
    # A full cell is its own alias, so a threshold one below 2^64 changes nothing.
    return np.array([min(weight, full - 1) for weight in weights], np.uint64), np.array(aliases, np.intp)
