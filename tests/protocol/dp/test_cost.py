"""What noise costs, by hand; what clients have spent; the budget is tested with the node that keeps it."""

from math import sqrt

import msgspec
import pytest

from f2ed.protocol.dp import Ledger, Noise, dp_epsilon, noise_cost, privacy_cost
from f2ed.protocol.quantization.encoding import Encoding

ENCODING = Encoding(clip_value=1.0, clip_norm=1.0)
NOISE = Noise(noise_multiplier=2.0, delta=1e-5)


def cost(**changes):
    numbers = {"coordinates": 100, "members": 5, "carriers": 3, "shards": 4, "rounds": 10} | changes
    return noise_cost(NOISE, ENCODING, **numbers)


def test_without_noise_there_is_no_bound():
    assert privacy_cost(ENCODING, coordinates=100, survivors=5) is None


@pytest.mark.parametrize(
    ("survivors", "colluders", "clear", "honest"), [(5, 0, False, 5), (5, 2, False, 3), (5, 0, True, 1)]
)
def test_only_the_noise_of_honest_members_counts_and_in_the_clear_only_ones_own(survivors, colluders, clear, honest):
    noisy = ENCODING.noisy(2.0, coordinates=100, carriers=5)
    found = privacy_cost(noisy, coordinates=100, survivors=survivors, colluders=colluders, clear=clear)
    assert found == pytest.approx(1 / (2 * 2.0**2) * 5 / honest, rel=1e-6)


def test_deviations_by_hand():
    """Each of 3 carriers adds 2/√3 of the sensitivity; the mean of 5 has 1/√5 of that, the mean of 4 shards half."""
    found = cost()
    assert found.client_deviation == pytest.approx(2 / sqrt(3) * found.sensitivity)
    assert found.sum_deviation == pytest.approx(2 * found.sensitivity)
    assert found.shard_deviation == pytest.approx(found.client_deviation / sqrt(5))
    assert found.mean_deviation == pytest.approx(found.shard_deviation / 2)
    assert found.central_deviation == pytest.approx(2 / 20)
    assert found.mean_norm == pytest.approx(found.mean_deviation * 10)


def test_epsilon_composes_and_depends_on_who_adds_noise():
    found = cost(helpers=2, colluders=1)
    one = 1 / (2 * 2.0**2)
    assert found.dp_epsilon_round == pytest.approx(dp_epsilon(one, 1e-5), rel=1e-6)
    assert found.dp_epsilon == pytest.approx(dp_epsilon(10 * one, 1e-5), rel=1e-6)
    assert found.dp_epsilon_full == pytest.approx(dp_epsilon(10 * one * 3 / 4, 1e-5), rel=1e-6)
    assert found.dp_epsilon_helped == pytest.approx(dp_epsilon(10 * one * 3, 1e-5), rel=1e-6)


def test_in_the_clear_the_noise_of_others_hides_nobody():
    assert cost(clear=True).dp_epsilon == pytest.approx(dp_epsilon(10 * 3 / (2 * 2.0**2), 1e-5), rel=1e-6)


def test_the_ledger_adds_up_and_goes_through_bytes():
    ledger = Ledger().charge({1: 0.5, 2: 0.25}).charge({1: 0.5})
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(ledger), type=Ledger)
    assert again == ledger
    assert again.spent == {1: 1.0, 2: 0.25}
    assert again.dp_epsilon([1, 2, 3], delta=1e-5) == {1: dp_epsilon(1.0, 1e-5), 2: dp_epsilon(0.25, 1e-5), 3: 0.0}


def test_charging_leaves_the_ledger_before_it_alone():
    before = Ledger({1: 0.5})
    before.charge({1: 0.5})
    assert before.spent == {1: 0.5}
