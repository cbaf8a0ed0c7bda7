"""Decode PNG images of 8 bits per channel, gray or in color, without interlacing: all that a data set needs."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from f2ed.core.errors import ConfigError

__all__ = ["decode_png"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}


def decode_png(content: bytes, name: str) -> NDArray[np.uint8]:
    """Return the pixels, `[height, width, channels]`; `name` is used in errors."""
    header, packed = b"", []
    for kind, data in _chunks(content, name):
        if kind == b"IHDR":
            header = data
        elif kind == b"IDAT":
            packed.append(data)
    if len(header) != 13:
        raise ConfigError(f"{name} is a PNG file without a header; fetch it again")
    width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    if depth != 8 or color not in _CHANNELS or interlaced:
        raise ConfigError(
            f"{name} is a PNG image of {depth} bits and color type {color}{', interlaced' if interlaced else ''}; "
            "8 bits per channel without a palette or interlacing are supported"
        )
    channels = _CHANNELS[color]
    try:
        raw = zlib.decompress(b"".join(packed))
    except zlib.error as broken:
        raise ConfigError(f"{name} is a damaged PNG file ({broken}); fetch it again") from None
    if len(raw) != height * (1 + width * channels):
        raise ConfigError(f"{name} has {len(raw)} bytes of pixels, expected {height * (1 + width * channels)}")
    lines = np.frombuffer(raw, dtype=np.uint8).reshape(height, 1 + width * channels)
    return _unfiltered(lines[:, 0], lines[:, 1:].reshape(height, width, channels), name)


def _chunks(content: bytes, name: str) -> list[tuple[bytes, bytes]]:
    if not content.startswith(_SIGNATURE):
        raise ConfigError(f"{name} is no PNG file; fetch it again")
    chunks, at = [], len(_SIGNATURE)
    while at + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, at)
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + length]))
        at += 12 + length
    return chunks


def _unfiltered(filters: NDArray[np.uint8], lines: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    """Undo the filter of each line: pixels are stored as differences from pixels to the left and above."""
    out = np.empty_like(lines)
    # Differences from the left alone are undone for all lines at once; sums of bytes wrap around.
    left = filters == 1
    out[left] = np.cumsum(lines[left], axis=1, dtype=np.uint8)
    for row in np.flatnonzero(~left):
        above = out[row - 1] if row else np.zeros_like(lines[0])
        if filters[row] == 0:
            out[row] = lines[row]
        elif filters[row] == 2:
            out[row] = lines[row] + above
        elif filters[row] in {3, 4}:
            out[row] = _predicted(lines[row], above, average=filters[row] == 3)
        else:
            raise ConfigError(f"{name} uses the unknown PNG filter {filters[row]}; fetch it again")
    return out


def _predicted(line: NDArray[np.uint8], above: NDArray[np.uint8], *, average: bool) -> NDArray[np.uint8]:
    """Undo the average or Paeth filter, pixel by pixel."""
    out = np.empty_like(line)
    for channel in range(line.shape[1]):
        left = corner = 0
        values = []
        for value, up in zip(line[:, channel].tolist(), above[:, channel].tolist(), strict=True):
            left = (value + ((left + up) // 2 if average else _paeth(left, up, corner))) % 256
            corner = up
            values.append(left)
        out[:, channel] = values
    return out


def _paeth(left: int, up: int, corner: int) -> int:
    """Return the neighbor nearest to left + up - corner; ties go to the first of left, up, corner."""
    guess = left + up - corner
    by_left, by_up, by_corner = abs(guess - left), abs(guess - up), abs(guess - corner)
    if by_left <= by_up and by_left <= by_corner:
        return left
    return up if by_up <= by_corner else corner
