"""Which clients are malicious."""

import pytest

from f2ed.core.errors import ConfigError
from f2ed.simulation import experiment
from f2ed.simulation.assignments import Assignments
from f2ed.simulation.header import digest
from f2ed.simulation.placement import malicious_clients
from f2ed.simulation.validate import check

SETTINGS = {"data": "digits", "clients": 30, "malicious": 7, "shards": 8, "rounds": 2, "attack": "alie"}


def contaminated(placement, **changes):
    """The number of malicious clients in each shard that has some."""
    made = experiment(SETTINGS | {"placement": placement} | changes)
    shards = Assignments(made)(0).shards
    malicious = malicious_clients(made, shards)
    assert len(set(malicious)) == made.malicious
    assert list(malicious) == sorted(malicious)
    return [count for members in shards if (count := len(set(members) & set(malicious)))]


def test_spread_attackers_are_in_as_many_shards_as_possible():
    assert contaminated("spread") == [1] * 7
    assert sorted(contaminated("spread", malicious=9)) == [1] * 7 + [2]


def test_packed_attackers_are_in_as_few_shards_as_possible():
    assert len(contaminated("packed")) == 2
    assert len(contaminated("packed", malicious=1)) == 1


def test_by_default_they_are_anywhere():
    found = {len(contaminated(None, seed=seed)) for seed in range(5)}
    assert found - {2, 7}


def test_the_default_counts_as_absent_in_the_digest_of_old_records():
    assert digest(experiment(SETTINGS)) == digest(experiment(SETTINGS | {"placement": None}))
    assert digest(experiment(SETTINGS)) != digest(experiment(SETTINGS | {"placement": "packed"}))


def test_a_placement_without_shards_is_refused():
    made = experiment(SETTINGS | {"placement": "packed", "shards": "none"})
    with pytest.raises(ConfigError, match="placement: found 'packed', but there are no shards"):
        check(made)
