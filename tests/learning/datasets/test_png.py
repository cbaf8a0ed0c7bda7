"""PNG images are decoded as Pillow does, with every filter; others are refused in one sentence."""

import io
import struct
import zlib

import numpy as np
import pytest

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets.png import decode_png

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(lines, width, height, *, depth=8, color=2, interlaced=0):
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize("kind", range(5))
def test_every_filter_is_undone_as_pillow_does(kind):
    image = pytest.importorskip("PIL.Image")
    lines = np.concatenate((np.full((6, 1), kind, np.uint8), PIXELS.reshape(6, -1)), axis=1).tobytes()
    content = png(lines, 5, 6)
    assert np.array_equal(decode_png(content, "it"), np.asarray(image.open(io.BytesIO(content))))


def test_lines_with_different_filters_follow_each_other():
    image = pytest.importorskip("PIL.Image")
    kinds = np.array([[0], [4], [1], [2], [1], [3]], np.uint8)
    content = png(np.concatenate((kinds, PIXELS.reshape(6, -1)), axis=1).tobytes(), 5, 6)
    assert np.array_equal(decode_png(content, "it"), np.asarray(image.open(io.BytesIO(content))))


GOOD = png(b"\0" + bytes(6), 2, 1)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"GIF89a", "no PNG file"),
        (GOOD[:8], "without a header"),
        (png(b"\0" + bytes(6), 2, 1, depth=16), "16 bits"),
        (png(b"\0" + bytes(6), 2, 1, color=3), "color type 3"),
        (png(b"\0" + bytes(6), 2, 1, interlaced=1), "interlaced"),
        (png(b"\0" + bytes(5), 2, 1), "6 bytes of pixels, expected 7"),
        (png(b"\7" + bytes(6), 2, 1), "unknown PNG filter 7"),
        (GOOD.replace(zlib.compress(b"\0" + bytes(6)), b"x" * len(zlib.compress(b"\0" + bytes(6)))), "damaged"),
    ],
)
def test_other_files_are_refused(content, says):
    assert decode_png(GOOD, "it").shape == (1, 2, 3)
    with pytest.raises(ConfigError, match=says):
        decode_png(content, "it")
