"""Leverage: what the sums over all groups that ever were determine about one client."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2ed.core.errors import ConfigError
from f2ed.guarantees import LeakMeter, outnumbered
from f2ed.guarantees.leakage.leverage import determined, leverages


def row(*clients, weight=1):
    return dict.fromkeys(clients, weight)


def by_pinv(rows):
    columns = sorted({client for each in rows for client in each})
    matrix = np.array([[each.get(client, 0) for client in columns] for each in rows], float)
    return dict(zip(columns, np.diag(np.linalg.pinv(matrix) @ matrix), strict=True))


weighted_rows = st.lists(
    st.dictionaries(st.integers(0, 11), st.integers(1, 5), min_size=1, max_size=6), min_size=1, max_size=8
)


@given(weighted_rows)
def test_the_leverage_is_the_diagonal_of_the_projector(rows):
    assert leverages(rows) == pytest.approx(by_pinv(rows), abs=1e-6)


@given(weighted_rows)
def test_who_is_determined_exactly_has_a_leverage_of_one(rows):
    found = leverages(rows)
    assert determined(rows) == {client for client, value in found.items() if value > 1 - 1e-7}


def test_a_group_of_its_own_gives_one_over_its_size():
    assert leverages([row(1, 2, 3, 4), row(7, 8)]) == dict.fromkeys((1, 2, 3, 4), 0.25) | {7: 0.5, 8: 0.5}


def test_unions_of_groups_in_any_number_of_rounds_give_no_more_than_the_groups():
    rng = np.random.default_rng(0)
    groups = [range(3 * at, 3 * at + 3) for at in range(8)]
    unions = [
        row(*(client for at in rng.choice(8, size=rng.integers(1, 8), replace=False) for client in groups[at]))
        for _ in range(50)
    ]
    assert list(leverages(unions).values()) == pytest.approx([1 / 3] * 24)


def test_one_who_leaves_is_determined_if_the_others_stay_together():
    rows = [row(0, 1, 2, 3), row(0, 1, 2)]
    assert determined(rows) == {3}
    assert leverages(rows)[3] == pytest.approx(1)


def test_one_who_leaves_is_determined_even_if_everyone_is_regrouped():
    before = [row(0, 1, 2, 3), row(4, 5, 6, 7)]
    after = [row(0, 4, 1, 5), row(2, 6, 3)]
    assert determined([*before, *after]) == {7}


def test_weights_that_rotate_between_serials_determine_everyone():
    rows = [{0: 3, 1: 1, 2: 1}, {0: 1, 1: 3, 2: 1}, {0: 1, 1: 1, 2: 3}]
    assert determined(rows) == {0, 1, 2}
    assert determined([row(0, 1, 2, weight=weight) for weight in (1, 3)]) == set()


def test_the_same_row_twice_adds_nothing():
    assert leverages([row(1, 2), row(2, 1), {}]) == {1: 0.5, 2: 0.5}


def test_regrouping_everyone_once_costs_small_groups_more_than_large_ones():
    def worst(size):
        order = np.random.default_rng(1).permutation(6 * size).tolist()
        first = [row(*range(at, at + size)) for at in range(0, 6 * size, size)]
        return max(leverages([*first, *(row(*order[at : at + size]) for at in range(0, 6 * size, size))]).values())

    assert worst(4) > 0.4
    assert worst(12) < 1 / 3


@pytest.mark.parametrize("seed", range(6))
def test_the_meter_agrees_with_floating_point_where_weights_change(seed):
    rng = np.random.default_rng(seed)
    clients, rows, meter = 14, [], LeakMeter(14)
    weights = np.ones(clients, int)
    for number in range(12):
        if number % 3 == 2:  # a new serial
            weights[rng.choice(clients, 4, replace=False)] = rng.integers(1, 4, 4)
        sums = [tuple(map(int, rng.choice(clients, size=rng.integers(2, 7), replace=False))) for _ in range(2)]
        meter.observe(sums, dict(enumerate(weights.tolist())))
        rows += [{client: int(weights[client]) for client in some} for some in sums]
        values = by_pinv(rows)
        assert {at for at, after in enumerate(meter.exposed_after) if after is not None} == {
            client for client, value in values.items() if value > 1 - 1e-7
        }
        assert meter.rank == round(sum(values.values()))


def test_a_weight_that_changes_and_no_other_gives_the_client_away():
    meter = LeakMeter(3)
    meter.observe([(0, 1, 2)], {0: 2})
    assert meter.exposed == 0
    meter.observe([(0, 1, 2)])
    assert meter.exposed_after == [2, None, None]


def test_the_chance_to_be_outnumbered_is_the_one_of_the_design():
    assert outnumbered(pool=100, malicious=10, size=4) == pytest.approx(0.0008, abs=5e-5)
    assert outnumbered(pool=8, malicious=5, size=4) == pytest.approx(0.29, abs=0.005)
    assert outnumbered(pool=8, malicious=2, size=4) == 0


def test_a_pool_of_nobody_but_the_malicious_outnumbers_for_certain():
    assert outnumbered(pool=4, malicious=10, size=4) == 1
    assert outnumbered(pool=4, malicious=0, size=1) == 1


@pytest.mark.parametrize("wrong", [{"size": 9}, {"size": 0}, {"malicious": -1}, {"hidden": 0}])
def test_impossible_pools_are_refused(wrong):
    with pytest.raises(ConfigError, match="from a pool of 8"):
        outnumbered(**{"pool": 8, "malicious": 1, "size": 4} | wrong)
