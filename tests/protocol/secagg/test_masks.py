"""Expanding masks: the definition, in blocks, by one thread or two."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from f2ed.protocol.primitives.ring import BLOCK, WIDTHS, Ring
from f2ed.protocol.secagg import masks
from f2ed.protocol.secagg.masks import Mask, add_masks

ONE, OTHER = Mask(bytes([1]) * 32, negative=False), Mask(bytes([2]) * 32, negative=True)


def expanded(mask, ring, length):
    """Return the mask by its definition: AES-256-CTR of zeros from a zero IV, in little-endian words."""
    encryptor = Cipher(algorithms.AES(mask.key), modes.CTR(bytes(16))).encryptor()
    words = np.frombuffer(encryptor.update(bytes(length * ring.dtype.itemsize)), ring.dtype)
    return -words if mask.negative else words


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("length", [0, 1, 5, 1000, BLOCK // 8 + 3])
def test_masks_are_aes_ctr_added_word_by_word(width, length):
    ring = Ring(width)
    words = np.arange(length).astype(ring.dtype)
    wanted = words + expanded(ONE, ring, length) + expanded(OTHER, ring, length)
    add_masks(words, [ONE, OTHER])
    assert np.array_equal(words, wanted)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_same_words(threads):
    ring = Ring(32)
    length = 5 * BLOCK // 4 + 17
    words, wanted = ring.zeros(length), expanded(ONE, ring, length) * np.uint32(4)
    add_masks(words, [ONE] * 4, threads=threads)
    assert np.array_equal(words, wanted)


def test_a_thread_that_fails_leaves_no_part_bare_in_silence(monkeypatch):
    honest = masks._add_from

    def fails(words, start, given):
        if start:
            raise MemoryError
        honest(words, start, given)

    monkeypatch.setattr(masks, "_add_from", fails)
    with pytest.raises(MemoryError):
        add_masks(Ring(32).zeros(2 * BLOCK), [ONE] * 4, threads=2)


def test_a_mask_and_its_negative_cancel():
    words = np.arange(100, dtype=np.uint32)
    add_masks(words, [ONE, ONE._replace(negative=True)])
    assert words.tolist() == list(range(100))


def test_a_mask_never_shows_its_key():
    assert "secret" in repr(ONE)
    assert "1" not in repr(ONE)
