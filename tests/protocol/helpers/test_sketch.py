"""The sketch is exact, unbiased, and blind to no long update: each pattern here passed an earlier design."""

import numpy as np
import pytest

from f2ed.core.errors import ConfigError
from f2ed.protocol.helpers import field
from f2ed.protocol.helpers.field import P
from f2ed.protocol.helpers.shares import SMUDGE
from f2ed.protocol.helpers.sketch import MAX_COORDINATES, Sketch, folding_width, ternary
from f2ed.protocol.helpers.terms import STEPS_PER_CLIP
from f2ed.protocol.helpers.verdict import TEST_BOUND

SEED = bytes(range(32))


def fold(rows, seed=SEED, columns=384, foldings=3):
    rows = np.atleast_2d(rows)
    sketch = Sketch(seed, coordinates=rows.shape[1], columns=columns, foldings=foldings)

    def fill(some, where, out):
        out[:] = rows[some, where]

    return sketch.fold(len(rows), fill)


def caught(row, seed, tests=80, **size):
    """Return whether tests or diagonal show a row to be too long; the smudge is as unhelpful as it can be."""
    found = fold(field.from_integers(row), seed, **size)
    values = np.abs(field.centered(field.small_product(found, ternary(seed, tests, found.shape[1]))))
    length = int(field.centered(field.gram(found))[0, 0])
    return bool((values > TEST_BOUND + SMUDGE).any()) or not 0 <= length <= 3 * 1.7 * STEPS_PER_CLIP**2


def test_a_sketch_is_linear_and_adds_every_coordinate_once():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, P, (11, 20_000), dtype=np.uint64)
    found = fold(rows)
    both = fold(field.add(rows[:1], rows[1:2]))
    assert (field.add(found[:1], found[1:2]) == both).all()
    ones = field.centered(fold(field.from_integers(np.eye(1, 20_000, 17_001, dtype=np.int64))))
    width = folding_width(384, 3)
    assert [np.abs(ones[0, f * width : (f + 1) * width]).sum() for f in range(3)] == [1, 1, 1]


def test_the_chunks_in_which_rows_are_read_do_not_matter():
    rng = np.random.default_rng(1)
    rows = rng.integers(0, P, (3, 8192 * 2 + 5), dtype=np.uint64)
    alone = np.vstack([fold(row) for row in rows])
    assert (alone == fold(rows)).all()


@pytest.mark.parametrize("columns", [9, 96, 4096])
def test_no_sum_of_the_largest_words_overflows(columns):
    """Rows of p, which stands for zero, fold to zero, and a row of p - 1 to that of -1."""
    rows = np.full((34, 40_000), P, np.uint64)
    rows[1] = P - 1
    found = fold(rows, columns=columns)
    assert not np.delete(found, 1, axis=0).any()
    ones = fold(np.ones((1, 40_000), np.uint64), columns=columns)
    assert (found[1] == field.negative(ones)[0]).all()


def test_inner_products_are_unbiased():
    rng = np.random.default_rng(2)
    rows = rng.integers(-1000, 1000, (2, 3000))
    exact = rows @ rows.T
    found = [field.centered(field.gram(fold(field.from_integers(rows), bytes([i]) * 32))) / 3 for i in range(60)]
    assert np.allclose(np.mean(found, axis=0).diagonal(), exact.diagonal(), rtol=0.05)


def two_segments(value, width, coordinates):
    row = np.zeros(coordinates, np.int64)
    row[: 2 * width] = value
    return row


WIDTH = folding_width(384, 3)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(two_segments(P // 2, WIDTH, 4000), id="half of p on two whole segments"),
        pytest.param(two_segments(P // 2, 128, 4000), id="half of p on two segments of a power of two"),
        pytest.param(np.where(np.arange(4000) % 2, P // 2, 0), id="half of p on every other coordinate"),
        pytest.param(np.full(4000, P // 2), id="half of p everywhere"),
        pytest.param(np.where(np.arange(4000) == 7, P // 2, 0), id="half of p once"),
        pytest.param(np.where(np.arange(4000) == 7, P // 3, 0), id="a third of p once"),
        pytest.param(np.where(np.arange(4000) < 2 * WIDTH, 2**31, 0), id="an invisible square root"),
        pytest.param(np.where(np.arange(4000) == 9, 2**31, 0), id="one coordinate of 2^31"),
        pytest.param(np.full(4000, 2**20), id="sixty times too long"),
        pytest.param(np.random.default_rng(5).integers(-P // 2, P // 2, 4000), id="garbage"),
    ],
)
def test_long_updates_are_caught(row):
    assert all(caught(row.astype(np.int64), bytes([i]) * 32) for i in range(10))


def test_two_coordinates_that_cancel_must_collide_in_every_folding():
    """They do with a chance below 1/width in each; a seed with which they do in the first shows nothing there."""
    row = np.zeros(300, np.int64)
    row[10], row[290] = 2**31, 2**31
    seeds = [i.to_bytes(32, "big") for i in range(1000)]
    hidden = [seed for seed in seeds if not fold(field.from_integers(row), seed, WIDTH, 1).any()]
    assert 1 <= len(hidden) < 15
    assert not any(caught(row, seed, columns=WIDTH, foldings=1) for seed in hidden)
    assert all(caught(row, seed) for seed in hidden)


def test_honest_updates_pass():
    rng = np.random.default_rng(6)
    for i in range(20):
        row = rng.standard_t(3, 4000)
        row *= STEPS_PER_CLIP / np.linalg.norm(row)
        assert not caught(np.rint(row).astype(np.int64), bytes([i]) * 32)


@pytest.mark.parametrize(("columns", "foldings", "width"), [(4096, 3, 1361), (384, 3, 127), (9, 3, 3)])
def test_widths_are_prime(columns, foldings, width):
    assert folding_width(columns, foldings) == width


def test_sketches_that_prove_nothing_are_refused():
    with pytest.raises(ConfigError, match="use at least 9"):
        folding_width(8, 3)
    with pytest.raises(ConfigError, match="1 to 67108864 are proven"):
        Sketch(SEED, coordinates=MAX_COORDINATES + 1, columns=384, foldings=3)


def test_test_vectors_are_half_zero():
    found = ternary(SEED, 50, 1000)
    assert set(np.unique(found)) == {-1, 0, 1}
    assert abs((found == 0).mean() - 0.5) < 0.02
    assert abs((found == 1).mean() - 0.25) < 0.02
