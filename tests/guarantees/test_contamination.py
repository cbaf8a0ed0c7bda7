from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pytest

from f2ed.core.errors import ConfigError
from f2ed.guarantees import contamination
from f2ed.guarantees.contamination import hypergeometric


def enumerated(clients: int, malicious: int, shards: int) -> dict[int, float]:
    """Count over all placements."""
    size, larger = divmod(clients, shards)
    home = [shard for shard in range(shards) for _ in range(size + (shard < larger))]
    seen = Counter(len({home[place] for place in places}) for places in combinations(range(clients), malicious))
    return {hit: count / comb(clients, malicious) for hit, count in seen.items()}


def as_mapping(clients: int, malicious: int, shards: int) -> dict[int, float]:
    found = contamination(clients=clients, malicious=malicious, shards=shards)
    return {found.first + i: chance for i, chance in enumerate(found.probabilities)}


@pytest.mark.parametrize("clients", range(1, 10))
def test_it_equals_the_count_over_all_placements(clients):
    for malicious in range(clients + 1):
        for shards in range(1, clients + 1):
            assert as_mapping(clients, malicious, shards) == pytest.approx(
                enumerated(clients, malicious, shards), rel=1e-12
            )


def test_it_is_the_birthday_problem_worked_by_hand():
    # Two attackers, 10 shards of 10: the second falls to the first one's shard with 9 of 99 places.
    assert as_mapping(100, 2, 10) == pytest.approx({1: 1 / 11, 2: 10 / 11})


@pytest.mark.parametrize(("clients", "malicious", "shards"), [(100, 10, 25), (103, 20, 25), (1000, 30, 41)])
def test_it_agrees_with_random_deals(clients, malicious, shards):
    rng = np.random.default_rng(1)
    home = np.arange(clients) % shards
    assignments = 4000
    hits = [len(set(home[rng.permutation(clients)[:malicious]])) for _ in range(assignments)]
    found = contamination(clients=clients, malicious=malicious, shards=shards)
    assert np.mean(hits) == pytest.approx(found.mean, abs=5 * np.std(hits) / np.sqrt(assignments))
    for limit in range(min(hits), max(hits)):
        assert np.mean(np.array(hits) <= limit) == pytest.approx(found.at_most(limit), abs=0.035)


def test_tails_far_below_rounding_are_right():
    # All 20 attackers fill 4 of 40 shards: the chance is 6e-23 and known, C(40, 4) of C(200, 20).
    assert as_mapping(200, 20, 40)[4] == pytest.approx(comb(40, 4) / comb(200, 20), rel=1e-10)


@pytest.mark.parametrize("shards", [2500, 2499, 833])
def test_ten_thousand_clients_are_no_trouble(shards):
    found = contamination(clients=10_000, malicious=1_000, shards=shards)
    size, larger = divmod(10_000, shards)
    clean = [comb(10_000 - s, 1_000) / comb(10_000, 1_000) for s in (size, size + 1)]
    assert sum(found.probabilities) == pytest.approx(1, abs=1e-12)
    assert found.mean == pytest.approx(shards - (shards - larger) * clean[0] - larger * clean[1], rel=1e-10)


def test_a_quantile_is_the_first_number_that_suffices():
    found = contamination(clients=100, malicious=2, shards=10)
    assert [found.quantile(chance) for chance in (0.05, 0.0909, 0.1, 1.0)] == [1, 1, 2, 2]


def test_beyond_the_ends_it_is_certain():
    found = contamination(clients=100, malicious=10, shards=25)
    assert (found.at_most(2), found.at_most(10), found.at_most(-1)) == (0, 1, 0)


@pytest.mark.parametrize(("n", "m", "k"), [(10, 3, 4), (10, 0, 4), (10, 10, 4), (10, 7, 0), (10, 4, 10), (9, 8, 7)])
def test_the_hypergeometric_terms_are_those_of_the_formula(n, m, k):
    first, values = hypergeometric(n, m, k)
    expected = {x: comb(m, x) * comb(n - m, k - x) / comb(n, k) for x in range(max(0, m + k - n), min(m, k) + 1)}
    assert {first + i: value for i, value in enumerate(values)} == pytest.approx(expected)


@pytest.mark.parametrize(("clients", "malicious", "shards"), [(10, 11, 2), (10, -1, 2), (10, 1, 0), (10, 1, 11)])
def test_a_deal_that_cannot_be_is_refused(clients, malicious, shards):
    with pytest.raises(ConfigError, match="cannot assign"):
        contamination(clients=clients, malicious=malicious, shards=shards)
