"""Masks: AES-256-CTR read as little-endian words and added to, or subtracted from, a vector in place.

One pass over the vector in cache-sized blocks, with all masks on each block, costs little more than AES and one
addition per mask. CTR can start anywhere, so that several threads share one vector.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from f2ed.protocol.primitives.crypto import Keystream
from f2ed.protocol.primitives.ring import BLOCK, Words

__all__ = ["Mask", "add_masks"]

# Below this many bytes of masks in total, starting a thread costs more than it saves.
_WORTH_A_THREAD = 1 << 22
_CIPHER_BLOCK = 16


class Mask(NamedTuple):
    """One mask: its key, and whether it is added or subtracted."""

    key: bytes
    negative: bool

    def __repr__(self) -> str:
        """Show everything but the key."""
        return f"Mask(key=<secret>, negative={self.negative})"


def add_masks(words: Words, masks: Sequence[Mask], *, threads: int = 2) -> None:
    """Add the expansion of every mask to the words, in place."""
    if threads < 2 or words.nbytes * len(masks) < _WORTH_A_THREAD:
        _add_from(words, 0, masks)
        return
    block = BLOCK // words.itemsize
    part = -(-len(words) // (threads * block)) * block
    with ThreadPoolExecutor(threads - 1) as pool:
        work = [pool.submit(_add_from, words[i : i + part], i, masks) for i in range(part, len(words), part)]
        _add_from(words[:part], 0, masks)  # the caller's thread does its part
    for done in work:
        done.result()


def _add_from(words: Words, start: int, masks: Sequence[Mask]) -> None:
    """Mask a part of the vector that begins at word `start`, a multiple of the block."""
    skip = start * words.itemsize // _CIPHER_BLOCK
    streams = [(Keystream(mask.key, skip=skip), np.subtract if mask.negative else np.add) for mask in masks]
    step = BLOCK // words.itemsize
    expanded = np.empty(min(step, len(words)), words.dtype)
    raw = expanded.view(np.uint8).data
    for i in range(0, len(words), step):
        block = words[i : i + step]
        mask, out = expanded[: len(block)], raw[: block.nbytes]
        for stream, combine in streams:
            stream.fill(out)
            combine(block, mask, out=block)
    expanded[:] = 0
