"""Image similarity, matching of reconstructions to true images, and pictures of both."""

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

__all__ = ["BEST_PSNR", "RECOGNIZED", "match", "psnr", "save_png", "side_by_side", "ssim"]

Images = NDArray[np.float64]
"""[n, channels, height, width] with pixels from 0 to 1."""

BEST_PSNR = 80.0
"""Cap of the peak signal-to-noise ratio, in decibels: the images are indistinguishable."""
RECOGNIZED = 20.0
"""Peak signal-to-noise ratio, in decibels, above which an image counts as recovered."""

_WINDOW = 7


def psnr(true: Images, found: Images) -> NDArray[np.float64]:
    """Return the peak signal-to-noise ratio of each image, in decibels."""
    error = np.square(true - found).reshape(len(true), -1).mean(axis=1)
    with np.errstate(divide="ignore"):
        ratio: NDArray[np.float64] = np.minimum(-10 * np.log10(error), BEST_PSNR)
    return ratio


def ssim(true: Images, found: Images) -> NDArray[np.float64]:
    """Return the structural similarity of each image (Wang et al. 2004), over all windows of 7 x 7 pixels."""
    side = min(_WINDOW, *true.shape[2:])
    x, y = (sliding_window_view(images, (side, side), axis=(2, 3)) for images in (true, found))
    mean_x, mean_y = x.mean(axis=(-1, -2)), y.mean(axis=(-1, -2))
    var_x, var_y = x.var(axis=(-1, -2)), y.var(axis=(-1, -2))
    both = (x * y).mean(axis=(-1, -2)) - mean_x * mean_y
    c1, c2 = 0.01**2, 0.03**2
    likeness = (2 * mean_x * mean_y + c1) * (2 * both + c2) / ((mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2))
    out: NDArray[np.float64] = likeness.reshape(len(true), -1).mean(axis=1)
    return out


def match(true: Images, found: Images) -> Images:
    """Return the found image that matches each true one, closest pairs first; each is used once.

    A true image without a match gets black.
    """
    out = np.zeros_like(true)
    if not len(found):
        return out
    flat_true, flat_found = true.reshape(len(true), -1), found.reshape(len(found), -1)
    distance = (
        np.square(flat_true).sum(axis=1)[:, None]
        + np.square(flat_found).sum(axis=1)[None]
        - 2 * flat_true @ flat_found.T
    )
    for _ in range(min(len(true), len(found))):
        row, column = np.unravel_index(np.argmin(distance), distance.shape)
        out[row] = found[column]
        distance[row], distance[:, column] = np.inf, np.inf
    return out


def side_by_side(true: Images, found: Images, *, most: int = 16) -> NDArray[np.uint8]:
    """Return one picture, [height, width, channels], with the true images above their reconstructions."""
    rows = [np.concatenate(list(images[:most]), axis=2) for images in (true, found)]
    gap = np.ones((rows[0].shape[0], 1, rows[0].shape[2]))
    picture = np.concatenate([rows[0], gap, rows[1]], axis=1).clip(0, 1)
    return np.asarray(np.rint(255 * picture.transpose(1, 2, 0)), dtype=np.uint8)


def save_png(path: Path, picture: NDArray[np.uint8], *, scale: int = 3) -> None:
    """Write a picture of one or three channels, each pixel `scale` times as wide and high."""
    large = picture.repeat(scale, axis=0).repeat(scale, axis=1)
    height, width, channels = large.shape
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in large)
    chunks = (_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(lines, 9)), _chunk(b"IEND", b""))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
