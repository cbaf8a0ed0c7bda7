"""Strikes in simulated runs with helpers: who is too long is out for the epoch, by name, and back after it."""

import pytest

from f2ed.core.errors import ConfigError
from f2ed.protocol.helpers import STRUCK, ServerGuard
from f2ed.simulation import Simulation, experiment
from f2ed.simulation.checkpoint import pack, unpack
from tests.simulation.small_run import SMALL
from tests.simulation.test_helped_runs import changed, final, without_costs

LONG = changed(epoch=2) | {
    "attack": {"kind": "gaussian", "std": 50.0},
    "malicious": 2,
    "unclipped": True,
    "rounds": 4,
    "seed": 3,
}


def run(**more):
    _, records, simulation = final(LONG | {"secure": False} | more)
    return records, simulation.malicious


def test_a_strike_lasts_an_epoch_and_not_longer():
    records, malicious = run()
    for first in (records[0], records[2]):
        assert {client: first.excluded[client] for client in malicious} == dict.fromkeys(
            malicious, "too long: failed the range tests"
        )
        assert not set(malicious) & set(first.dropped)
    for later in (records[1], records[3]):
        assert all(later.excluded[client] == later.dropped[client] == STRUCK for client in malicious)
    assert all(record.contaminated_weight == 0 for record in records)


@pytest.mark.parametrize("guard", ["groups", "nested"])
def test_strikes_are_the_same_with_shares_and_in_the_clear(guard):
    settings = LONG | {"protocol": LONG["protocol"] | {"guard": guard}, "client_dropout": 0.1}
    secret, records, _ = final(settings)
    plain, clear, _ = final(settings | {"secure": False})
    assert secret == plain
    assert [without_costs(record) for record in records] == [without_costs(record) for record in clear]
    assert any(STRUCK in record.dropped.values() for record in records)


def test_a_run_continues_from_its_checkpoint_with_its_strikes():
    _, records, simulation = final(LONG)
    state, _ = simulation.step(simulation.start())
    assert state.memory.struck == simulation.malicious
    fresh = Simulation(experiment(LONG), workers=1)
    again = [record for _, record in fresh.rounds(unpack(pack(state, fresh.digest), fresh.digest, fresh.device))]
    assert [without_costs(one) for one in again] == [without_costs(one) for one in records[1:]]


def test_a_checkpoint_from_before_strikes_is_read():
    simulation = Simulation(experiment(LONG), workers=1)
    state, _ = simulation.step(simulation.start())
    stored = pack(state, simulation.digest).replace(b"\xa6memory", b"\xa6memorx")
    assert unpack(stored, simulation.digest, simulation.device).memory == ServerGuard()


def test_a_round_whose_long_updates_leave_too_few_names_them_and_goes_on_without_them():
    records, malicious = run(protocol=LONG["protocol"] | {"guard": "nested", "crowd": 11})
    assert f"strikes for clients {', '.join(map(str, malicious))}, which are out of range" in records[0].skipped
    assert records[0].weights is None
    assert all(records[1].dropped[client] == STRUCK for client in malicious)


def test_attackers_clip_unless_it_is_said_otherwise():
    records, malicious = run(unclipped=None)
    assert not any(set(malicious) & set(record.excluded) for record in records)


def test_before_the_attack_begins_nobody_is_too_long():
    records, malicious = run(attack_from=2)
    assert not set(malicious) & {*records[0].excluded, *records[1].excluded}
    assert set(malicious) <= set(records[2].excluded)


def test_without_helpers_nobody_tests_the_range():
    with pytest.raises(ConfigError, match="unclipped: only helpers test the range"):
        Simulation(experiment(SMALL | {"unclipped": True}))
