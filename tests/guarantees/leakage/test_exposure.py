import numpy as np
import pytest

from f2ed.guarantees import LeakMeter
from f2ed.guarantees.leakage.rowspace import RowSpace


def solved_for(clients, sums):
    """Return the rank and which unit vectors least squares finds in the row space."""
    rows = np.zeros((len(sums), clients))
    for row, some in zip(rows, sums, strict=True):
        row[list(some)] = 1
    return np.linalg.matrix_rank(rows), np.abs(np.diag(np.linalg.pinv(rows) @ rows) - 1) < 1e-7


@pytest.mark.parametrize("seed", range(10))
def test_the_meter_agrees_with_floating_point_on_sums_of_any_shape(seed):
    rng = np.random.default_rng(seed)
    clients, seen = 24, []
    meter = LeakMeter(clients)
    for number in range(1, 15):
        # Small sums keep the parts apart at first, and later ones join them.
        sums = [rng.choice(clients, size=rng.integers(1, 2 + number // 2), replace=False) for _ in range(3)]
        sums = [tuple(map(int, some)) for some in sums]
        meter.observe(sums)
        seen += sums
        rank, solved = solved_for(clients, seen)
        assert meter.rank == rank
        assert [after is not None for after in meter.exposed_after] == solved.tolist()
        assert meter.exposed == solved.sum()
    assert meter.rounds == 14


def test_the_first_round_that_determines_someone_is_kept():
    meter = LeakMeter(6)
    meter.observe([(0, 1, 2), (3, 4, 5)])
    assert (meter.rank, meter.exposed, meter.first, meter.crowd) == (2, 0, None, 3)
    meter.observe([(0, 1, 2), (3, 4)])
    assert (meter.rank, meter.exposed, meter.first, meter.crowd) == (3, 1, 2, 1)
    meter.observe([(0, 1), (3, 4, 5)])
    assert (meter.rank, meter.exposed, meter.first) == (4, 2, 2)
    assert meter.exposed_after == [None, None, 3, None, None, 2]


def test_a_round_that_opens_nothing_tells_nothing():
    meter = LeakMeter(4)
    meter.observe([])
    meter.observe([()])
    assert (meter.rounds, meter.rank, meter.exposed, meter.crowd) == (2, 0, 0, 4)


def test_a_pair_that_was_solved_for_as_one_and_then_parts_is_two_unknowns():
    meter = LeakMeter(4)
    meter.observe([(0, 1, 2, 3), (2, 3)])
    assert (meter.rank, meter.crowd, meter.exposed) == (2, 2, 0)
    meter.observe([(0, 2)])
    assert (meter.rank, meter.exposed) == (3, 0)
    meter.observe([(0,)])
    assert (meter.rank, meter.exposed) == (4, 4)


def test_a_column_that_is_copied_stays_equal_to_its_origin_until_a_row_tells_them_apart():
    space = RowSpace(2)
    space.add([{0}, {1}])
    space.split([0, 1])
    assert (space.columns, space.rank, space.single().any()) == (4, 2, False)
    space.add([{2}])
    assert space.single().tolist() == [True, False, True, False]


def test_spaces_that_are_joined_keep_what_each_knew():
    one, other = RowSpace(2), RowSpace(3)
    one.add([{0, 1}])
    other.add([{0}, {1, 2}])
    whole = RowSpace.joined([one, other])
    assert (whole.columns, whole.rank) == (5, 3)
    assert whole.single().tolist() == [False, False, True, False, False]
    whole.add([{1, 2}])
    assert whole.single().tolist() == [True, True, True, False, False]
