import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from f2ed.core.errors import PeerError
from f2ed.protocol.helpers import field
from f2ed.protocol.helpers.field import P
from f2ed.protocol.primitives.crypto import Keystream

WORDS = st.lists(st.integers(0, P - 1), min_size=1, max_size=12)


def words(numbers):
    return np.array(numbers, np.uint64)


def as_integers(array):
    return array.astype(object)


def drawn(*shape, seed=0):
    rng = np.random.default_rng(seed)
    found = rng.integers(0, P, shape, dtype=np.uint64)
    found.flat[0] = P - 1
    return found


@settings(max_examples=50)
@given(WORDS)
def test_sums_differences_and_negatives_are_those_of_integers(numbers):
    one, other = words(numbers), words(numbers[::-1])
    assert (as_integers(field.add(one, other)) == (as_integers(one) + as_integers(other)) % P).all()
    assert (as_integers(field.subtract(one, other)) == (as_integers(one) - as_integers(other)) % P).all()
    assert (as_integers(field.negative(one)) == -as_integers(one) % P).all()


@pytest.mark.parametrize("inner", [1, 2047, 2048, 2049, 5000])
def test_matrix_products_are_exact(inner):
    left, right = drawn(4, inner, seed=1), drawn(3, inner, seed=2)
    assert (as_integers(field.product(left, right)) == as_integers(left) @ as_integers(right).T % P).all()
    assert (as_integers(field.gram(left)) == as_integers(left) @ as_integers(left).T % P).all()


def test_the_largest_words_do_not_lose_a_bit_in_a_product():
    rows = np.full((2, 4096), P - 1, np.uint64)
    assert (as_integers(field.gram(rows)) == 4096).all()  # (-1)² 4096 times


def test_products_with_small_vectors_are_exact():
    rows, small = drawn(5, 3000), np.random.default_rng(3).integers(-1, 2, (4, 3000)).astype(np.int8)
    assert (as_integers(field.small_product(rows, small)) == as_integers(rows) @ small.astype(object).T % P).all()


def test_integers_survive_the_way_there_and_back():
    numbers = np.array([0, 1, -1, P // 2, -(P // 2), 12345, -(2**59)], np.int64)
    assert (field.centered(field.from_integers(numbers)) == numbers).all()


def test_expansion_uses_61_bits_and_can_start_anywhere():
    key = bytes(range(32))
    found = field.elements(key, 100)
    assert found.max() < P
    assert found.max() > P // 2
    assert [field.element_at(key, place) for place in (0, 1, 50, 99)] == [int(found[i]) for i in (0, 1, 50, 99)]
    long = np.empty((1 << 16) + 5, np.uint64)
    field.expand(Keystream(key), long)  # more than the keystream fills at a time
    assert (field.reduce(long[:100]) == found).all()


def test_words_that_are_not_reduced_are_refused():
    with pytest.raises(PeerError, match="one encoding"):
        field.unpack(words([P]).tobytes(), 1)
    with pytest.raises(PeerError, match="24 bytes where 2 field elements take 16"):
        field.unpack(bytes(24), 2)


def test_lazy_sums_never_overflow():
    total = np.full(1, (1 << 64) - 1, np.uint64)
    field.fold_top(total)
    for _ in range(field.LAZY):
        total += np.uint64(P)
    assert int(total[0]) >= P  # it did not wrap around
    assert int(field.reduce(total)[0]) == ((1 << 64) - 1) % P
