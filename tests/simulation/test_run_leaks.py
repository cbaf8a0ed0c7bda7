"""The leak meter of a run: what it forecasts, what it reads after each round, and that a resumed run reads the same."""

import msgspec
import pytest

from f2ed.core.errors import ConfigError, LeakWarning
from f2ed.guarantees import LeakFollower, Unopened
from f2ed.protocol.sharding import Batches, EveryKRounds
from f2ed.records import read
from f2ed.simulation import Simulation, experiment, simulate
from f2ed.simulation.checkpoint import pack, unpack

SMALL = {
    "data": {"kind": "synthetic", "side": 4, "train": 240, "test": 40},
    "model": {"kind": "mlp", "hidden": [4]},
    "clients": 24,
    "malicious": 2,
    "shards": 6,
    "rounds": 8,
    "estimator": "mean",
    "secure": False,
}


def records(**changes):
    simulation = Simulation(experiment(SMALL | changes), workers=1)
    return simulation.header, [record for _, record in simulation.rounds()]


def test_resharding_every_round_is_forecast_to_expose_everyone_and_does():
    header, rounds = records(schedule="every-round")
    assert header.forecast.leaks
    assert header.forecast.exposed == 24
    assert [record.leak.rank for record in rounds[:4]] == [6, 11, 16, 21]
    assert (rounds[0].leak.exposed, rounds[0].leak.first, rounds[0].leak.crowd) == (0, None, 4)
    assert (rounds[-1].leak.exposed, rounds[-1].leak.rank, rounds[-1].leak.crowd) == (24, 24, 1)
    first = next(record.round for record in rounds if record.leak.exposed)
    assert rounds[-1].leak.first == first + 1 == header.forecast.first


def test_fixed_shards_are_forecast_to_expose_nobody_and_do_not():
    header, rounds = records(schedule="fixed")
    assert not header.forecast.leaks
    assert {(record.leak.rank, record.leak.exposed, record.leak.crowd) for record in rounds} == {(6, 0, 4)}


def test_batches_stay_together_in_every_round():
    header, rounds = records(schedule={"kind": "batches", "size": 2})
    assert not header.forecast.leaks
    assert [record.leak.rank for record in rounds[:2]] == [6, 11]
    assert (rounds[-1].leak.rank, rounds[-1].leak.exposed, rounds[-1].leak.crowd) == (12, 0, 2)
    assert header.settings["schedule"] == {"type": "batches", "size": 2, "k": 1}


def test_dropouts_are_read_from_what_was_opened():
    tolerant = {"mode": "dropout-tolerant"}
    _, strict = records(client_dropout=0.15)
    _, lenient = records(client_dropout=0.15, protocol=tolerant)
    assert strict[-1].leak.exposed == 0
    assert lenient[-1].leak.exposed > 0
    assert lenient[-1].leak.rank > strict[-1].leak.rank


def test_without_shards_there_is_nothing_to_read():
    header, rounds = records(shards="none", rounds=1)
    assert header.forecast is None
    assert rounds[0].leak is None


def test_a_resumed_run_reads_what_it_would_have_read():
    settings = experiment(
        SMALL | {"schedule": "every-round", "client_dropout": 0.1, "protocol": {"mode": "dropout-tolerant"}}
    )
    whole = Simulation(settings, workers=1)
    steps = list(whole.rounds())
    after, _ = steps[3]
    again = Simulation(settings, workers=1)
    state = unpack(pack(after, whole.digest), again.digest, again.device)
    assert [record.leak for _, record in again.rounds(state)] == [record.leak for _, record in steps[4:]]


def test_another_history_is_observed_from_the_start():
    simulation = Simulation(experiment(SMALL), workers=1)
    tracker = LeakFollower(simulation._assignments, range(24))
    assert tracker((Unopened(closed=(0, 1)),)).rank == 4
    assert tracker((Unopened(closed=(0, 1)), Unopened())).rank == 6
    assert tracker((Unopened(closed=(5,)),)).rank == 5


def test_simulate_warns_of_a_schedule_that_exposes_someone():
    with pytest.warns(LeakWarning, match=r"determine all 24 clients individually.*schedule = \"fixed\""):
        simulate(**SMALL, schedule="every-round")


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"client_dropout": 0.2, "protocol": {"mode": "dropout-tolerant"}}, "protocol.mode: .* open no smaller sums"),
        ({"shards": 16}, "shards: .* Use fewer shards"),
    ],
)
def test_it_says_what_to_change_where_the_schedule_is_not_at_fault(changes, advice):
    with pytest.raises(ConfigError, match=advice):
        simulate(**(SMALL | changes), strict=True)


def test_strict_simulate_refuses_such_a_schedule():
    with pytest.raises(ConfigError, match="schedule: Over 8 rounds the sums determine all 24 clients"):
        simulate(**SMALL, schedule="every-round", strict=True)
    simulate(**SMALL, schedule="fixed", strict=True)


def test_the_meter_can_choose_the_rounds_between_reshardings():
    found = experiment(SMALL | {"schedule": {"kind": "every-k-rounds", "k": "auto"}})
    assert found.schedule == EveryKRounds(4)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"schedule": {"kind": "batches", "size": 2, "k": "auto"}}, 'schedule.k: "auto" is for every-k-rounds'),
        ({"schedule": {"kind": "every-k-rounds", "k": "auto"}, "shards": "none"}, "state a number"),
        (
            {
                "schedule": {"kind": "every-k-rounds", "k": "auto"},
                "client_dropout": 0.2,
                "protocol": {"mode": "dropout-tolerant"},
            },
            "schedule.k: no k is safe",
        ),
    ],
)
def test_where_the_meter_cannot_choose_it_says_so(changes, why):
    with pytest.raises(ConfigError, match=why):
        experiment(SMALL | changes)


def test_batches_too_large_for_the_shards_are_refused_before_anything_starts():
    with pytest.raises(ConfigError, match="schedule: 24 clients make 4 batches of 6, too few for 6 shards"):
        Simulation(experiment(SMALL | {"schedule": {"kind": "batches", "size": 6}}))


def test_uneven_batches_claim_no_more_crowd_than_their_smallest_shard():
    settings = experiment(SMALL | {"clients": 26, "schedule": {"kind": "batches", "size": 3}, "secure": True})
    assert settings.schedule == Batches(3)
    assert Simulation(settings, workers=1).header.crowd == 3


def test_records_of_older_versions_have_no_meter_and_say_once_how_many_hide_each_other(tmp_path):
    header, rounds = records(rounds=1)
    old = [msgspec.to_builtins(header), msgspec.to_builtins(rounds[0])]
    old[0]["hidden_among"] = 4
    del old[0]["format"], old[0]["forecast"], old[1]["leak"], old[1]["crowd"]
    path = tmp_path / "old.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in old))
    log = read(path)
    assert (log.header.forecast, log.rounds[0].leak, log.rounds[0].crowd) == (None, None, 4)
