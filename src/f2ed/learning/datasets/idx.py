"""Read the IDX format of MNIST and its siblings: a magic number, the sizes, then unsigned bytes."""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from f2ed.core.errors import ConfigError

__all__ = ["parse_idx", "read_idx", "unpacked"]

_UNSIGNED_BYTE = 0x08


def unpacked(path: Path) -> bytes:
    """Return the content of a file, decompressed if its first bytes are those of gzip."""
    content = path.read_bytes()
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as broken:
        raise ConfigError(f"{path} is truncated or damaged gzip ({broken}); delete it and fetch it again") from None


def parse_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """Return the array in `content`, read-only; `name` is used in errors."""
    if len(content) < 4 or content[:3] != bytes([0, 0, _UNSIGNED_BYTE]):
        raise ConfigError(
            f"{name} starts with {content[:4].hex() or 'nothing'}, but an IDX file of bytes starts with 000008..; "
            "this is another kind of file: delete it and fetch it again"
        )
    dimensions = content[3]
    start = 4 + 4 * dimensions
    shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist()) if len(content) >= start else None
    wanted = start + math.prod(shape) if shape is not None else start
    if len(content) != wanted:
        raise ConfigError(f"{name} has {len(content)} bytes, expected {wanted}; delete it and fetch it again")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape or ())


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Return the array of one IDX file, plain or gzip."""
    return parse_idx(unpacked(path), str(path))
