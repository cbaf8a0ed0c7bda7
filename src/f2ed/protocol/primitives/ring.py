"""Integers modulo 2^b as native words that wrap around, and their bytes on the wire."""

from typing import Any, Literal, final

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError, PeerError

__all__ = ["BLOCK", "WIDTHS", "Ring", "Width", "Words", "largest_bits"]

Words = npt.NDArray[np.unsignedinteger[Any]]
"""A vector over the ring: uint16, uint32 or uint64."""

Width = Literal[16, 24, 32, 64]
WIDTHS: tuple[Width, ...] = (16, 24, 32, 64)
BLOCK = 1 << 18
"""Bytes worked on at a time: a block of the vector and one of a mask stay in the second-level cache."""

_DTYPES = {16: "<u2", 24: "<u4", 32: "<u4", 64: "<u8"}
_SIGNED = {16: "<i2", 24: "<i4", 32: "<i4", 64: "<i8"}


@final
class Ring(msgspec.Struct, frozen=True):
    """The integers modulo 2^bits.

    The 24-bit ring is stored in 32-bit words, whose upper byte is meaningless and not sent.
    """

    bits: Width

    @property
    def dtype(self) -> np.dtype[Any]:
        """The little-endian word that holds one element."""
        return np.dtype(_DTYPES[self.bits])

    @property
    def wire_bytes(self) -> int:
        """Bytes of one element on the wire."""
        return self.bits // 8

    def zeros(self, length: int) -> Words:
        """Return the zero vector."""
        return np.zeros(length, self.dtype)

    def check(self, words: Words, length: int) -> None:
        """Raise `ConfigError` unless the words are a flat vector of this ring and length."""
        if words.dtype != self.dtype or words.shape != (length,):
            raise ConfigError(
                f"a vector of {words.dtype} and shape {words.shape}; this round adds {length} words of {self.dtype}"
            )

    def pack(self, words: Words) -> memoryview:
        """Return the bytes to send: a view of the words, except in the 24-bit ring."""
        plain = np.ascontiguousarray(words).view(np.uint8)
        if self.bits == 24:
            plain = plain.reshape(-1, 4)[:, :3].reshape(-1)
        return plain.data

    def add_packed(self, total: Words, payload: bytes | memoryview) -> None:
        """Add a vector received over the wire to a total, in place; another length raises `PeerError`."""
        if len(payload) != len(total) * self.wire_bytes:
            raise PeerError(
                f"an upload of {len(payload)} bytes; {len(total)} words of {self.bits} bits "
                f"take {len(total) * self.wire_bytes}"
            )
        if self.bits == 24:
            _add_triples(total, np.frombuffer(payload, np.uint8).reshape(-1, 3))
        else:
            np.add(total, np.frombuffer(payload, self.dtype), out=total)

    def signed(self, words: Words) -> npt.NDArray[np.signedinteger[Any]]:
        """Return the representatives from -2^(bits-1) to 2^(bits-1) - 1: a view, except in the 24-bit ring."""
        signed = words.view(_SIGNED[self.bits])
        return (signed << 8) >> 8 if self.bits == 24 else signed


def largest_bits(ring: int, terms: int) -> int:
    """Return the most fixed-point bits q for which a sum of `terms` numbers up to 2^(q-1) - 1 cannot wrap around."""
    most: int = (2**ring - 1) // (2 * terms)
    return (most + 1).bit_length()


def _add_triples(total: Words, triples: npt.NDArray[np.uint8]) -> None:
    step = BLOCK // 4
    quads = np.zeros((min(step, len(total)), 4), np.uint8)
    for start in range(0, len(total), step):
        block = total[start : start + step]
        quads[: len(block), :3] = triples[start : start + step]
        np.add(block, quads[: len(block)].reshape(-1).view("<u4"), out=block)
