"""Shamir's secret sharing over a prime field (Shamir 1979).

Python integers are fast enough: with few reductions, and Lagrange coefficients cached per set of survivors, splitting
and combining 100 shares of 32 bytes take less than a millisecond. It is not constant-time: the party that runs it
already holds the secret, or has just received the shares.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from math import prod
from operator import mul

from f2ed.core.errors import ConfigError, PeerError

__all__ = ["PRIME", "SHARE_BYTES", "coefficients_from", "combine", "split"]

PRIME = 2**256 + 297
"""The smallest prime above 2^256: every secret of 32 bytes is an element."""

SHARE_BYTES = 33
_STRETCH = 64


def split(secret: int, coefficients: Sequence[int], count: int, *, modulus: int = PRIME) -> list[int]:
    """Return the shares of secret + c₁x + c₂x² + … at x = 1 … count.

    One more share than there are coefficients rebuilds the secret. The coefficients must be random and secret;
    see `coefficients_from`.
    """
    if not 0 <= secret < modulus:
        raise ConfigError(f"a secret of {secret.bit_length()} bits; it must be below the modulus of the field")
    if len(coefficients) >= count:
        raise ConfigError(f"{count} shares cannot reach a threshold of {len(coefficients) + 1}; make more shares")
    highest_first = (*reversed(coefficients), secret)
    return [_evaluate(highest_first, x, modulus) for x in range(1, count + 1)]


def combine(shares: Mapping[int, int], *, modulus: int = PRIME) -> int:
    """Return the polynomial's value at 0 from exactly as many shares {x: y} as its threshold."""
    places = tuple(sorted(shares))
    total: int = sum(map(mul, _lagrange(places, modulus), (shares[x] for x in places)))
    return total % modulus


def coefficients_from(stream: bytes, count: int, *, modulus: int = PRIME) -> list[int]:
    """Split a stream of random bytes into `count` field elements, 48 bytes each: uniform to within 2^-127."""
    if len(stream) != 48 * count:
        raise ConfigError(f"{len(stream)} random bytes for {count} coefficients; {48 * count} are needed")
    return [int.from_bytes(stream[i : i + 48], "big") % modulus for i in range(0, len(stream), 48)]


def _evaluate(highest_first: Sequence[int], x: int, modulus: int) -> int:
    """Evaluate by Horner's rule. The places are small, so it reduces only every 64 steps."""
    value = 0
    for start in range(0, len(highest_first), _STRETCH):
        for coefficient in highest_first[start : start + _STRETCH]:
            value = value * x + coefficient
        value %= modulus
    return value


@lru_cache(maxsize=256)
def _lagrange(places: tuple[int, ...], modulus: int) -> list[int]:
    """Return Π x_j / (x_j - x_i) over j ≠ i for each i; with a single inversion (Montgomery's trick)."""
    if not places or places[0] % modulus == 0 or len({x % modulus for x in places}) != len(places):
        raise PeerError(f"shares at {places}; their places must be distinct and nonzero")
    bottoms = [x * prod(other - x for other in places if other != x) % modulus for x in places]
    before = [1]
    for bottom in bottoms:
        before.append(before[-1] * bottom % modulus)
    rest = pow(before[-1], -1, modulus) * prod(places) % modulus
    answer = []
    for bottom, product in zip(reversed(bottoms), islice(reversed(before), 1, None), strict=True):
        answer.append(rest * product % modulus)
        rest = rest * bottom % modulus
    return answer[::-1]
