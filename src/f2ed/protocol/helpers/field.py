"""Arithmetic modulo the Mersenne prime p = 2^61 - 1, exact and fast in NumPy.

Elements are uint64 words. Because p is all ones, p - x is `x ^ p`, a product with 2^s rotates 61 bits, and up to seven
words can be added before they are reduced. Matrix products split each word into three limbs of 21, 20 and 20 bits: in
float64, sums of 2048 products of two limbs stay below 2^53 and are exact.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from f2ed.core.arrays import one_blas_thread
from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.crypto import Keystream

__all__ = [
    "LAZY",
    "WORD_BYTES",
    "Elements",
    "P",
    "add",
    "centered",
    "combination",
    "element_at",
    "elements",
    "expand",
    "fold_top",
    "from_integers",
    "gram",
    "negative",
    "pack",
    "packed",
    "product",
    "reduce",
    "small_product",
    "subtract",
    "unpack",
]

Elements = npt.NDArray[np.uint64]
"""Words that stand for elements of the field."""

P = (1 << 61) - 1
LAZY = 7
"""How many words up to p a word can collect on top of a reduced one."""
WORD_BYTES = 8

_P = np.uint64(P)
_BITS = np.uint64(61)
_SHIFTS = (0, 21, 41)
_LOW, _MIDDLE = np.uint64((1 << 21) - 1), np.uint64((1 << 20) - 1)
_INNER = 2048
_MOST_FILLED = 1 << 19


def fold_top(words: Elements, scratch: Elements | None = None) -> None:
    """Bring any words below 2^61 + 7, in place; they stand for the same elements.

    The sum of two words that are at most p is then at most p again. `scratch` is memory of the same shape.
    """
    high = np.right_shift(words, _BITS, out=scratch)
    words &= _P
    words += high


def reduce(words: Elements) -> Elements:
    """Return the representatives from 0 to p - 1 of any words."""
    low = (words & _P) + (words >> _BITS)
    # Below p the difference wraps around to something huge.
    return np.minimum(low, low - _P)


def add(one: Elements, other: Elements) -> Elements:
    """Return the sum of words that are at most p."""
    return reduce(one + other)


def negative(words: Elements) -> Elements:
    """Return the negatives of words that are at most p."""
    return reduce(words ^ _P)


def subtract(one: Elements, other: Elements) -> Elements:
    """Return the difference of words that are at most p."""
    return reduce(one + (other ^ _P))


def from_integers(numbers: npt.NDArray[np.int64]) -> Elements:
    """Return the elements of integers between -p and p."""
    words = numbers.astype(np.int64).view(np.uint64)
    return np.asarray(
        np.minimum(words, words + _P)
    )  # Negative numbers are huge as words, and come down by wrapping around.


def centered(words: Elements) -> npt.NDArray[np.int64]:
    """Return the representatives between -p/2 and p/2 of reduced words."""
    signed = words.view(np.int64)
    return np.where(signed > P // 2, signed - P, signed)


def expand(stream: Keystream, out: Elements) -> None:
    """Overwrite a flat vector with the next words of a keystream: 61 of every 64 bits.

    A word is p, which stands for zero, with a chance of 2^-61; that is how far masks are from uniform.
    """
    raw = out.view(np.uint8).data
    for start in range(0, len(raw), _MOST_FILLED):
        stream.fill(raw[start : start + _MOST_FILLED])
    out &= _P


def elements(key: bytes, count: int) -> Elements:
    """Return the first elements of a key's keystream, reduced."""
    out = np.empty(count, "<u8")
    expand(Keystream(key), out)
    return reduce(out)


def element_at(key: bytes, index: int) -> int:
    """Return one element of a key's keystream, at any place."""
    block, place = divmod(index, 2)
    out = np.empty(2, "<u8")
    expand(Keystream(key, skip=block), out)
    return int(reduce(out)[place])


def product(left: Elements, right: Elements) -> Elements:
    """Return left @ right.T, for reduced matrices [n, k] and [m, k]."""
    return _assembled(_limb_products(left, right), len(left), len(right))


def gram(rows: Elements) -> Elements:
    """Return rows @ rows.T."""
    return _assembled(_limb_products(rows, None), len(rows), len(rows))


def combination(weights: Elements, rows: Elements) -> Elements:
    """Return the weighted sum of the rows, [k]."""
    return np.asarray(product(weights[None], rows.T)[0])


def small_product(rows: Elements, small: npt.NDArray[np.int8]) -> Elements:
    """Return rows @ small.T for a matrix [t, k] of -1, 0 and 1, with k below 2^31."""
    factors = small.astype(np.float64).T
    total = np.zeros((len(rows), len(small)), np.uint64)
    with one_blas_thread():
        for limb, shift in zip(_limbs(rows), _SHIFTS, strict=True):
            part = from_integers((limb @ factors).astype(np.int64))
            total = add(total, _rotated(part, shift))
    return total


def pack(words: Elements) -> bytes:
    """Return reduced words as bytes, 8 each, little-endian."""
    return np.ascontiguousarray(words, "<u8").tobytes()


def packed(words: Elements) -> memoryview:
    """Return reduced words as `pack` does, without a copy where they lie so already."""
    return np.ascontiguousarray(words, "<u8").view(np.uint8).data


def unpack(data: bytes | memoryview, *shape: int) -> Elements:
    """Return the words of so many bytes, or raise `PeerError` for another size or for words that are not reduced."""
    size = int(np.prod(shape))
    if len(data) != WORD_BYTES * size:
        raise PeerError(f"{len(data)} bytes where {size} field elements take {WORD_BYTES * size}")
    words = np.frombuffer(data, "<u8").reshape(shape)
    if size and int(words.max()) >= P:
        raise PeerError("a word that is not below p = 2^61 - 1; every element has one encoding")
    return words.astype(np.uint64, copy=False)


def _limbs(rows: Elements) -> tuple[npt.NDArray[np.float64], ...]:
    return (
        (rows & _LOW).astype(np.float64),
        ((rows >> np.uint64(21)) & _MIDDLE).astype(np.float64),
        (rows >> np.uint64(41)).astype(np.float64),
    )


def _limb_products(left: Elements, right: Elements | None) -> Elements:
    """Return the products of all pairs of limbs, [3n, 3m], as integers below 2^64."""
    n, m, inner = len(left), len(left if right is None else right), left.shape[1]
    total = np.zeros((3 * n, 3 * m), np.uint64)
    with one_blas_thread():
        for start in range(0, inner, _INNER):
            part = slice(start, start + _INNER)
            one = np.concatenate(_limbs(left[:, part]))
            # The same array twice lets the BLAS compute half of it.
            other = one if right is None else np.concatenate(_limbs(right[:, part]))
            total += (one @ other.T).astype(np.uint64)
    return total


def _assembled(parts: Elements, n: int, m: int) -> Elements:
    total = np.zeros((n, m), np.uint64)
    for i, high in enumerate(_SHIFTS):
        for j, low in enumerate(_SHIFTS):
            block = reduce(parts[i * n : (i + 1) * n, j * m : (j + 1) * m])
            total = add(total, _rotated(block, high + low))
    return total


def _rotated(words: Elements, shift: int) -> Elements:
    """Return reduced words times 2^shift."""
    shift %= 61
    if not shift:
        return words
    turned: Any = ((words << np.uint64(shift)) & _P) | (words >> np.uint64(61 - shift))
    return reduce(turned)
