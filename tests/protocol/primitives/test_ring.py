"""Rings of integers modulo 2^b, and their wire."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from f2ed.core.errors import ConfigError, PeerError
from f2ed.core.randomness import stream
from f2ed.protocol.primitives.ring import WIDTHS, Ring


def random_words(ring, length, *name):
    high = 2 ** (8 * ring.dtype.itemsize)
    return stream(0, "words", *name).integers(0, high, length, dtype=ring.dtype)


@settings(deadline=None)
@given(st.sampled_from(WIDTHS), st.integers(0, 300), st.integers(1, 5))
def test_uploads_add_up_modulo_the_ring(width, length, count):
    ring = Ring(width)
    vectors = [random_words(ring, length, i) for i in range(count)]
    total = ring.zeros(length)
    for words in vectors:
        ring.add_packed(total, bytes(ring.pack(words)))
    wanted = [sum(int(words[i]) for words in vectors) % 2**width for i in range(length)]
    assert [int(word) % 2**width for word in total] == wanted


@pytest.mark.parametrize("width", WIDTHS)
def test_a_word_takes_exactly_its_bits_on_the_wire(width):
    ring = Ring(width)
    assert len(ring.pack(random_words(ring, 70_000))) == 70_000 * width // 8


def test_three_bytes_a_word_come_back_across_blocks():
    ring = Ring(24)
    words = random_words(ring, 200_003)
    total = ring.zeros(len(words))
    ring.add_packed(total, ring.pack(words))
    assert np.array_equal(total, words & 0xFFFFFF)


@pytest.mark.parametrize("width", WIDTHS)
def test_signed_representatives_reach_both_ends(width):
    ring = Ring(width)
    ends = np.array([0, 1, 2 ** (width - 1) - 1, 2 ** (width - 1), 2**width - 1], ring.dtype)
    assert ring.signed(ends).tolist() == [0, 1, 2 ** (width - 1) - 1, -(2 ** (width - 1)), -1]


def test_an_upload_of_another_length_is_the_peers_fault():
    with pytest.raises(PeerError, match="an upload of 7 bytes; 2 words of 32 bits take 8"):
        Ring(32).add_packed(Ring(32).zeros(2), bytes(7))


@pytest.mark.parametrize("words", [np.zeros(3, np.uint64), np.zeros(4, np.uint32), np.zeros((3, 1), np.uint32)])
def test_a_vector_of_another_kind_is_the_callers_fault(words):
    with pytest.raises(ConfigError, match="this round adds 3 words of uint32"):
        Ring(32).check(words, 3)
