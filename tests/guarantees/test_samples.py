"""How many malicious clients a sample holds."""

import pytest

from f2ed.core.errors import ConfigError
from f2ed.guarantees import malicious_in_sample, plan_sample


def test_a_sample_by_hand():
    # 2 of 4 clients, 1 malicious: it is drawn half of the time. 3 of 4, 2 malicious: both with a chance of 1/2.
    assert malicious_in_sample(clients=4, malicious=1, clients_per_round=2, rounds=1) == 1
    assert malicious_in_sample(clients=4, malicious=2, clients_per_round=3, rounds=1) == 2
    assert malicious_in_sample(clients=1000, malicious=1, clients_per_round=5, rounds=1) == 0
    assert malicious_in_sample(clients=1000, malicious=1, clients_per_round=5, rounds=3) == 1


def test_more_rounds_assume_more_and_never_more_than_there_are():
    found = [malicious_in_sample(clients=1000, malicious=50, clients_per_round=100, rounds=r) for r in (1, 10, 1000)]
    assert found == sorted(found)
    assert 5 < found[0] < found[-1] < 25
    assert malicious_in_sample(clients=10, malicious=3, clients_per_round=10, rounds=10**6) == 3


def test_the_plan_states_the_average():
    found = plan_sample(clients=10_000, malicious=200, clients_per_round=100, rounds=100)
    assert (found.expected, found.share) == (2.0, 0.01)
    assert 8 <= found.assumed <= 10


@pytest.mark.parametrize(
    "changed", [{"clients_per_round": 0}, {"clients_per_round": 11}, {"malicious": 11}, {"rounds": 0}]
)
def test_what_cannot_be_drawn_is_refused(changed):
    with pytest.raises(ConfigError):
        plan_sample(**{"clients": 10, "malicious": 1, "clients_per_round": 5, "rounds": 1} | changed)
