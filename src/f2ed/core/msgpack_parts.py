"""MessagePack in parts: large buffers are handed on as they are, and never copied into one message."""

from collections.abc import Iterator, Mapping, Sequence
from struct import pack
from typing import Any, TypeAlias, final

import msgspec

from f2ed.core.errors import ConfigError

__all__ = ["Buffer", "Joined", "parts"]

Buffer: TypeAlias = bytes | memoryview

_MOST = (1 << 32) - 1


@final
class Joined(msgspec.Struct, frozen=True):
    """One value of bytes that is kept in several buffers."""

    buffers: Sequence[Buffer]


def parts(value: Any) -> Iterator[Buffer]:
    """Yield buffers that, put together, are what `msgspec.msgpack.encode` gives for a value.

    Mappings, tuples and lists are walked; bytes, memory views and `Joined` ones are yielded as they are.
    """
    if isinstance(value, Mapping):
        yield _head(len(value), 0x80, b"\xde", b"\xdf")
        for name, each in value.items():
            yield from parts(name)
            yield from parts(each)
    elif isinstance(value, tuple | list):
        yield _head(len(value), 0x90, b"\xdc", b"\xdd")
        for each in value:
            yield from parts(each)
    elif isinstance(value, bytes | memoryview):
        yield from parts(Joined((value,)))
    elif isinstance(value, Joined):
        flat = [memoryview(each).cast("B") for each in value.buffers]
        yield _bytes_head(sum(map(len, flat)))
        yield from flat
    else:
        yield msgspec.msgpack.encode(value)


def _head(size: int, short: int, of_16_bits: bytes, of_32_bits: bytes) -> bytes:
    if size < 16:
        return bytes((short | size,))
    return of_16_bits + pack(">H", size) if size < 1 << 16 else of_32_bits + pack(">I", size)


def _bytes_head(size: int) -> bytes:
    if size > _MOST:
        raise ConfigError(f"{size} bytes in one value; MessagePack holds less than 4 GiB, so split the array")
    if size < 1 << 8:
        return b"\xc4" + pack(">B", size)
    return b"\xc5" + pack(">H", size) if size < 1 << 16 else b"\xc6" + pack(">I", size)
