"""The shuffle is a public function: its orders are pinned, fair and complete."""

import hashlib
from collections import Counter
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from f2ed.protocol.sharding.shuffle import _below, _words, shuffled

PINNED = [7, 6, 9, 5, 4, 2, 3, 1, 0, 8]


def test_the_order_is_pinned_for_clients_written_in_another_language():
    assert shuffled(10, bytes(32)) == PINNED


def test_the_order_follows_the_written_definition():
    stream = b"".join(hashlib.sha256(bytes(32) + i.to_bytes(8, "big")).digest() for i in range(4))
    words = [int.from_bytes(stream[i : i + 8], "big") for i in range(0, len(stream), 8)]
    order = list(range(10))
    for step, last in enumerate(range(9, 0, -1)):
        other = words[step] % (last + 1)
        order[last], order[other] = order[other], order[last]
    assert shuffled(10, bytes(32)) == order


@given(st.integers(0, 300), st.binary(max_size=40))
def test_every_position_appears_once(count, key):
    assert sorted(shuffled(count, key)) == list(range(count))


def test_all_orders_of_four_are_equally_likely():
    draws = 24 * 400
    seen = Counter(tuple(shuffled(4, number.to_bytes(4, "big"))) for number in range(draws))
    chi_square = sum((seen[order] - 400) ** 2 / 400 for order in permutations(range(4)))
    assert chi_square < 49.7  # 23 degrees of freedom, one in a thousand


def test_words_that_would_favor_small_numbers_are_skipped():
    top = 2**64 - 1  # 2^64 = 1 mod 3, so the last word is left over
    assert _below(3, iter([top, 5])) == 2


def test_words_do_not_repeat_over_blocks():
    words = _words(b"key")
    first = [next(words) for _ in range(64)]
    assert len(set(first)) == 64
