from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2ed.core.errors import ConfigError
from f2ed.guarantees import guarantee


@pytest.mark.parametrize(
    ("shards", "malicious", "region"),
    [
        (25, 2, "theorem"),
        (24, 2, "experience"),  # 12·2 < 24 is strict
        (25, 10, "experience"),
        (25, 12, "experience"),
        (24, 12, "nothing"),
        (25, 25, "nothing"),
        (25, 99, "nothing"),
        (1, 0, "theorem"),
    ],
)
def test_the_worst_case_falls_into_one_of_three_regions(shards, malicious, region):
    found = guarantee(clients=100, malicious=malicious, shards=shards)
    assert found.region == region
    assert found.holds == (region == "theorem")


@given(st.integers(1, 400))
def test_the_tolerated_number_is_the_largest_that_holds(shards):
    found = guarantee(clients=400, malicious=0, shards=shards)
    assert 12 * found.tolerated < shards <= 12 * (found.tolerated + 1)


@pytest.mark.parametrize(("shards", "ours", "paper"), [(11, 0, 0), (12, 0, 0), (13, 1, 0), (24, 1, 1), (25, 2, 1)])
def test_the_papers_number_is_the_stricter_one(shards, ours, paper):
    found = guarantee(clients=400, malicious=0, shards=shards)
    assert (found.tolerated, found.tolerated_in_paper) == (ours, paper)


def test_the_papers_large_setting_breaks_its_own_bound():
    found = guarantee(clients=100, malicious=10, shards=25)
    assert not found.holds
    assert found.crowd == 4
    assert found.worst_share == 0.4
    assert found.chance_of_theorem == 0  # two shards of 4 have no room for 10 attackers
    assert found.chance_of_minority == 1


@pytest.mark.parametrize("shards", range(1, 21))
def test_the_papers_small_setting_breaks_it_for_any_number_of_shards(shards):
    assert not guarantee(clients=20, malicious=5, shards=shards).holds


def test_so_many_shards_may_stay_closed_and_not_one_more():
    found = guarantee(clients=1000, malicious=2, shards=50)
    assert found.spare_shards == 25
    assert guarantee(clients=1000, malicious=2, shards=50 - 25).holds
    assert not guarantee(clients=1000, malicious=2, shards=50 - 26).holds


def test_a_random_deal_may_hold_where_the_worst_case_does_not():
    # 12·2 = 24: two attackers hold only where both fall to one shard, 4 of the 119 other places.
    found = guarantee(clients=120, malicious=2, shards=24)
    assert not found.holds
    assert found.chance_of_theorem == pytest.approx(4 / 119)


def test_the_theorem_leaves_nothing_to_chance():
    found = guarantee(clients=1000, malicious=2, shards=50)
    assert found.chance_of_theorem == found.chance_of_minority == 1


@pytest.mark.parametrize(("clients", "malicious", "shards"), [(9, 4, 3), (10, 4, 3), (8, 3, 4), (7, 5, 7), (6, 2, 1)])
def test_majorities_and_surrounded_clients_equal_the_count_over_all_placements(clients, malicious, shards):
    size, larger = divmod(clients, shards)
    home = [shard for shard in range(shards) for _ in range(size + (shard < larger))]
    placements = [set(chosen) for chosen in combinations(range(clients), malicious)]
    majority = surrounded = 0
    for bad in placements:
        for shard in range(shards):
            members = [place for place in range(clients) if home[place] == shard]
            honest = [place for place in members if place not in bad]
            majority += len(honest) < len(members) / 2
            surrounded += len(honest) == 1
    found = guarantee(clients=clients, malicious=malicious, shards=shards)
    assert found.expected_malicious_majority == pytest.approx(majority / shards / len(placements))
    assert found.chance_surrounded == pytest.approx(surrounded / (clients - malicious) / len(placements))


def test_colluders_thin_the_crowd_and_never_below_the_client_itself():
    assert guarantee(clients=100, malicious=3, shards=10).honest_crowd == 7
    assert guarantee(clients=100, malicious=30, shards=10).honest_crowd == 1


@pytest.mark.parametrize(
    ("clients", "malicious", "shards", "why"),
    [
        (0, 0, 1, "at least 1"),
        (10, 10, 1, "from 0 to 9"),
        (10, -1, 1, "from 0 to 9"),
        (10, 1, 0, "choose from 1 to 10"),
        (10, 1, 11, "choose from 1 to 10"),
    ],
)
def test_impossible_numbers_are_refused(clients, malicious, shards, why):
    with pytest.raises(ConfigError, match=why):
        guarantee(clients=clients, malicious=malicious, shards=shards)
