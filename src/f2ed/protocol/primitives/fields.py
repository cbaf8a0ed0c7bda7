"""Unambiguous bytes for hashing: a length before every field."""

from f2ed.core.errors import ConfigError

__all__ = ["fields", "unsigned"]


def fields(*parts: bytes) -> bytes:
    """Join the parts, each preceded by its length in 8 bytes."""
    return b"".join([len(part).to_bytes(8, "big") + part for part in parts])


def unsigned(number: int) -> bytes:
    """Return an unsigned 64-bit number as 8 bytes."""
    if not 0 <= number < 2**64:
        raise ConfigError(f"{number} is not an unsigned number of 64 bits; ids, epochs and shard counts must be")
    return number.to_bytes(8, "big")
