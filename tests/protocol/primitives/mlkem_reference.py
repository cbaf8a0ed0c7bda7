"""ML-KEM-768's encapsulation as FIPS 203 writes it, from given randomness: transcripts of the tests are exact with it.

Slow and not constant in time: for tests alone. Algorithms are numbered as in the standard.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache

from f2ed.protocol.primitives.hybrid import Encapsulated

Q, K, N = 3329, 3, 256
Poly = list[int]


def _reversed7(i: int) -> int:
    return int(f"{i:07b}"[::-1], 2)


ZETAS = [pow(17, _reversed7(i), Q) for i in range(128)]
GAMMAS = [pow(17, 2 * _reversed7(i) + 1, Q) for i in range(128)]


def encapsulate(public: bytes, message: bytes) -> Encapsulated:
    """Algorithm 17: a ciphertext and a secret that follow from the key and 32 bytes."""
    seed = hashlib.sha3_512(message + hashlib.sha3_256(public).digest()).digest()
    return Encapsulated(_encrypt(public, message, seed[32:]), seed[:32])


def seeded(*name: object) -> Callable[[bytes], Encapsulated]:
    """Return an encapsulation that gives the same for the same key and name."""

    def made(public: bytes) -> Encapsulated:
        return encapsulate(public, hashlib.sha256(repr(name).encode() + public).digest())

    return made


def _encrypt(public: bytes, message: bytes, randomness: bytes) -> bytes:
    """Algorithm 14."""
    matrix, t = _expanded(public)
    small = [_small(randomness, i) for i in range(2 * K + 1)]
    y, e1, e2 = [_ntt(f) for f in small[:K]], small[K : 2 * K], small[2 * K]
    u = [_add(_inverse(_dot([matrix[j][i] for j in range(K)], y)), e1[i]) for i in range(K)]
    mu = [bit * ((Q + 1) // 2) for bit in _bits(message)]
    v = _add(_add(_inverse(_dot(t, y)), e2), mu)
    return b"".join(_packed(_compressed(f, 10), 10) for f in u) + _packed(_compressed(v, 4), 4)


@lru_cache(maxsize=64)
def _expanded(public: bytes) -> tuple[list[list[Poly]], list[Poly]]:
    rho = public[384 * K :]
    matrix = [[_uniform(rho + bytes([j, i])) for j in range(K)] for i in range(K)]
    return matrix, [_unpacked(public[384 * i : 384 * (i + 1)], 12) for i in range(K)]


def _uniform(seed: bytes) -> Poly:
    """Algorithm 7."""
    stream = hashlib.shake_128(seed).digest(1536)
    found = []
    for i in range(0, len(stream), 3):
        a, b, c = stream[i : i + 3]
        found += [d for d in (a + 256 * (b % 16), b // 16 + 16 * c) if d < Q]
    return found[:N]


def _small(seed: bytes, number: int) -> Poly:
    """Algorithm 8 with eta = 2."""
    bits = _bits(hashlib.shake_256(seed + bytes([number])).digest(128))
    return [(bits[i] + bits[i + 1] - bits[i + 2] - bits[i + 3]) % Q for i in range(0, 4 * N, 4)]


def _ntt(given: Poly) -> Poly:
    """Algorithm 9."""
    f, i, length = list(given), 1, 128
    while length >= 2:
        for start in range(0, N, 2 * length):
            for j in range(start, start + length):
                t = ZETAS[i] * f[j + length] % Q
                f[j], f[j + length] = (f[j] + t) % Q, (f[j] - t) % Q
            i += 1
        length //= 2
    return f


def _inverse(given: Poly) -> Poly:
    """Algorithm 10."""
    f, i, length = list(given), 127, 2
    while length <= 128:
        for start in range(0, N, 2 * length):
            for j in range(start, start + length):
                t = f[j]
                f[j], f[j + length] = (t + f[j + length]) % Q, ZETAS[i] * (f[j + length] - t) % Q
            i -= 1
        length *= 2
    return [x * 3303 % Q for x in f]


def _dot(left: list[Poly], right: list[Poly]) -> Poly:
    """Algorithms 11 and 12, added up."""
    total = [0] * N
    for f, g in zip(left, right, strict=True):
        for i in range(128):
            a, b, c, d = f[2 * i], f[2 * i + 1], g[2 * i], g[2 * i + 1]
            total[2 * i] = (total[2 * i] + a * c + b * d * GAMMAS[i]) % Q
            total[2 * i + 1] = (total[2 * i + 1] + a * d + b * c) % Q
    return total


def _add(f: Poly, g: Poly) -> Poly:
    return [(a + b) % Q for a, b in zip(f, g, strict=True)]


def _bits(data: bytes) -> list[int]:
    return [byte >> i & 1 for byte in data for i in range(8)]


def _compressed(f: Poly, width: int) -> Poly:
    return [((x << width) + Q // 2) // Q % (1 << width) for x in f]


def _packed(f: Poly, width: int) -> bytes:
    return sum(x << width * i for i, x in enumerate(f)).to_bytes(N * width // 8, "little")


def _unpacked(data: bytes, width: int) -> Poly:
    whole = int.from_bytes(data, "little")
    return [whole >> width * i & (1 << width) - 1 for i in range(N)]
