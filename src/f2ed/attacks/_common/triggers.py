"""Backdoor triggers painted into images, and data poisoned with them."""

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from f2ed.attacks._common.goal import Examples
from f2ed.core.arrays import Array
from f2ed.core.errors import ConfigError
from f2ed.core.settings import Settings

__all__ = ["Bars", "Box", "Square", "copied", "paint", "poisoned", "relabeled"]

_REFERENCE = 28  # pixels: triggers are defined for MNIST and scaled to other images

Count = Annotated[int, msgspec.Meta(ge=1)]
Place = Annotated[int, msgspec.Meta(ge=0)]


class Box(NamedTuple):
    """A rectangle of pixels."""

    row: int
    column: int
    height: int
    width: int


class Square(Settings, frozen=True, forbid_unknown_fields=True):
    """A uniform square, `size` pixels wide, by default 5 of 28."""

    size: Count | None = None
    row: Place = 0
    column: Place = 0
    value: float = 1.0
    """0 is black, 1 is white."""

    def boxes(self, images: Array) -> list[Box]:
        """Return the rectangle to paint into images of this shape."""
        height, width = pixels_of(images)
        size = self.size or scaled(5, min(height, width))
        return [Box(self.row, self.column, size, size)]


class Bars(Settings, frozen=True, forbid_unknown_fields=True):
    """The four bars of DBA, two above two: one for each group of malicious clients, together the global trigger.

    The numbers are pixels of a 28 by 28 image.
    """

    length: Count = 4
    gap: Count = 2
    shift: Count = 3
    """Rows from the upper bars to the lower."""
    value: float = 1.0

    def boxes(self, images: Array) -> list[Box]:
        """Return the bars, the upper ones first."""
        height, width = pixels_of(images)
        length, gap, shift = scaled(self.length, width), scaled(self.gap, width), scaled(self.shift, height)
        return [Box(row, column, 1, length) for row in (0, shift) for column in (0, length + gap)]


def pixels_of(images: Array) -> tuple[int, int]:
    """Return height and width, or refuse samples that no trigger can be painted into."""
    if len(images.shape) < 4:
        raise ConfigError(
            f"samples of shape {tuple(images.shape[1:])} are no images, so no trigger can be painted into them; choose "
            "an attack without one"
        )
    return int(images.shape[-2]), int(images.shape[-1])


def scaled(pixels: int, size: int) -> int:
    """Scale a length from a 28-pixel image to one of another size, rounding up."""
    return -(-pixels * size // _REFERENCE)


def paint(images: Array, boxes: Sequence[Box], shade: float | Array, blend: float = 1.0) -> Array:
    """Return a copy of the images with the boxes filled; below 1, `blend` lets the image show through.

    A shade may be an array of pixels of a box's size.
    """
    height, width = pixels_of(images)
    painted = copied(images)
    for box in boxes:
        bottom, right = box.row + box.height, box.column + box.width
        if bottom > height or right > width:
            raise ConfigError(
                f"a trigger down to row {bottom} and column {right} does not fit an image of {height} x {width}; "
                "make it smaller or move it"
            )
        under = painted[..., box.row : bottom, box.column : right]
        painted[..., box.row : bottom, box.column : right] = (
            shade if blend == 1 else blend * shade + (1 - blend) * under
        )
    return painted


def poisoned(
    data: Examples,
    share: float,
    boxes: Sequence[Box],
    shade: float | Array,
    target: int,
    rng: np.random.Generator,
    *,
    blend: float = 1.0,
) -> Examples:
    """Paint a random share of the images, at least one, and give them the target label; the others stay clean."""
    return relabeled(data, share, target, rng, lambda images: paint(images, boxes, shade, blend))


def relabeled(
    data: Examples, share: float, target: int, rng: np.random.Generator, mark: Callable[[Array], Array]
) -> Examples:
    """Mark a random share of the images, at least one, and give them the target label."""
    count = max(1, round(share * len(data.labels)))
    chosen = np.sort(rng.permutation(len(data.labels))[:count])
    images, labels = copied(data.images), copied(data.labels)
    images[chosen] = mark(images[chosen])
    labels[chosen] = target
    return Examples(images, labels)


def copied(array: Array) -> Array:
    """Return a copy that shares no memory."""
    return array.copy() if isinstance(array, np.ndarray) else array.clone()
