"""Client sampling in a run: some of the clients take part in a round, by a public draw."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest

from f2ed.core.errors import ConfigError
from f2ed.guarantees import LeakMeter, forecast_leak
from f2ed.protocol.sharding import EveryRound, Fixed, Sampling
from f2ed.simulation import Simulation, experiment
from f2ed.simulation.assignments import Assignments
from f2ed.simulation.checkpoint import pack, unpack
from tests.simulation.small_run import SMALL

MANY = SMALL | {"clients": 60, "clients_per_round": 12, "malicious": 0, "rounds": 4}


def simulation(**changed):
    return Simulation(experiment(MANY | changed), workers=1)


def models(**changed):
    return [state.model.numpy() for state, _ in simulation(**changed).rounds()]


def test_the_sample_is_that_of_the_public_seed():
    run = simulation()
    draw = Sampling(
        dict.fromkeys(range(60), b""), per_round=12, shards=4, schedule=Fixed(), seed=run._assignments(0).seed
    )
    for round_ in range(4):
        assert run._assignments(round_).shards == draw(round_).shards
    assert run.header.shards == draw(0).shards


@pytest.mark.parametrize("shards", [4, "none"])
def test_the_model_moves_by_the_mean_of_the_sample(shards):
    from f2ed.simulation.stopwatch import Stopwatch

    run = simulation(estimator="mean", shards=shards)
    start = run.start()
    updates, _ = run._local_updates(start, run._assignments(0).shards, Stopwatch(run.device))
    assert len(updates) == 12
    state, record = run.step(start)
    np.testing.assert_allclose(state.model - start.model, updates.mean(0), atol=2e-6)
    assert record.skipped is None


@pytest.mark.parametrize("schedule", ["fixed", "every-round", {"kind": "batches", "size": 3}])
def test_masked_equals_plain(schedule):
    for masked, plain in zip(models(schedule=schedule), models(schedule=schedule, secure=False), strict=True):
        assert np.array_equal(masked, plain)


def test_a_share_of_the_clients_is_that_number():
    assert experiment(MANY | {"clients_per_round": 0.2}).sampled == 12
    assert all(map(np.array_equal, models(), models(clients_per_round=0.2)))


def test_everyone_in_every_round_gives_the_bits_of_no_sampling():
    assert all(map(np.array_equal, models(clients_per_round=60, shards=20), models(clients_per_round=None, shards=20)))


@pytest.mark.parametrize("shards", [4, "none"])
def test_a_resumed_run_gives_the_same_bits(shards):
    run = simulation(client_momentum=0.5, shards=shards)
    through = [state for state, _ in run.rounds()]
    before = unpack(pack(through[1], run.digest), run.digest, run.device)
    assert np.array_equal(run.step(before)[0].model, through[2].model)
    assert 12 < len(through[2].momentum.clients) <= 36


def test_momentum_without_sampling_is_that_of_a_whole_table():
    """Of all clients in one tensor, as checkpoints had it."""
    run = Simulation(experiment(SMALL | {"client_momentum": 0.5}), workers=1)
    state = list(run.rounds())[1][0]
    packed = msgspec.msgpack.decode(pack(state, run.digest))
    table = np.stack([state.momentum.averages[client].numpy() for client in range(12)])
    del packed["momentum_clients"]
    packed |= {"averages": table.tobytes(), "seen": np.ones(12, bool).tobytes()}
    older = unpack(msgspec.msgpack.encode(packed), run.digest, run.device)
    assert np.array_equal(run.step(older)[0].model, run.step(state)[0].model)


def test_only_those_who_take_part_have_keys():
    run = simulation(rounds=2)
    list(run.rounds())
    taken = set(run._assignments.clients(0)) | set(run._assignments.clients(1))
    assert set(run._open._clients.members) == taken


@pytest.mark.parametrize("attack", ["sign-flip", "label-flip", {"kind": "alie", "shard_aware": True}, "oracle"])
def test_the_attackers_of_a_round_are_those_in_its_sample(attack):
    run = simulation(malicious=9, attack=attack, rounds=5, estimator="median", seed=3)
    records = [record for _, record in run.rounds()]
    for record in records:
        shards = run._assignments(record.round).shards
        found = tuple(at for at, members in enumerate(shards) if set(members) & set(run.malicious))
        assert record.contaminated == found
    assert len({record.contaminated for record in records}) > 1


def test_a_round_without_attackers_is_honest():
    attacked = {"malicious": 1, "attack": "sign-flip", "estimator": "mean", "rounds": 6}
    run = simulation(**attacked)
    honest = simulation(malicious=0, estimator="mean", rounds=6)
    state, other = run.start(), honest.start()
    for round_ in range(6):
        inside = set(run.malicious) & set(run._assignments.clients(round_))
        state, other = run.step(state)[0], honest.step(other)[0]
        if inside:
            assert not np.array_equal(state.model, other.model)
            return
        assert np.array_equal(state.model, other.model)


def test_dropouts_and_weights_are_those_of_the_sample():
    run = simulation(client_dropout=0.3, shards="none")
    record = run.step(run.start())[1]
    assert record.dropped
    assert set(record.dropped) <= set(run._assignments.clients(0))
    assert len(record.excluded) == len(record.dropped)


def test_the_estimator_assumes_what_samples_may_hold():
    it = experiment(MANY | {"malicious": 6, "clients_per_round": 30, "shards": 10, "estimator": "trimmed-mean"})
    assert it.assumed_malicious == 6
    rare = experiment(MANY | {"clients": 240, "malicious": 4, "rounds": 1, "clients_per_round": 12})
    assert rare.assumed_malicious == 2
    assert rare.estimator.contamination == pytest.approx(1 / 4)  # the most that FilterL2 tolerates of 4 rows


def test_fixed_shards_reveal_nothing_over_the_rounds_and_single_clients_do():
    sampled = {"clients": 60, "shards": 4, "clients_per_round": 12, "rounds": 200}
    fixed = forecast_leak(schedule=Fixed(), **sampled)
    assert (fixed.exposed, fixed.crowd, fixed.leaks) == (0, 3, False)
    every = forecast_leak(schedule=EveryRound(), **sampled)
    assert every.exposed == 60
    whole = forecast_leak(schedule=EveryRound(), clients=60, shards=20, rounds=200)
    assert every.first > whole.first


def test_the_meter_of_a_run_counts_the_samples():
    run = simulation(schedule="every-round", rounds=3)
    meter = LeakMeter(60)
    for _, record in run.rounds():
        meter.observe(run._assignments(record.round).shards)
        assert (record.leak.rank, record.leak.exposed) == (meter.rank, meter.exposed)
    assert meter.rank > 4


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"clients_per_round": 61}, "clients_per_round: found 61 of 60 clients"),
        ({"clients_per_round": 0}, "clients_per_round"),
        ({"clients_per_round": 1.5}, "clients_per_round"),
        ({"clients_per_round": 6}, "shards: 4 shards of 6 clients leave some with 1"),
        ({"clients_per_round": 3, "shards": 4}, "shards: found 4 shards for 3 clients"),
        ({"placement": "packed", "malicious": 2}, "placement: found 'packed', but each round has other shards"),
        ({"schedule": {"kind": "every-k-rounds", "k": "auto"}}, "schedule.k: .* everyone takes part"),
    ],
)
def test_what_cannot_work_is_refused(changed, reason):
    with pytest.raises(ConfigError, match=reason):
        simulation(**changed)


def test_heavy_clients_are_looked_for_in_all_shards_that_may_be_drawn():
    sizes = [30, *[3] * 59]
    ends = np.cumsum([0, *sizes])
    lists = tuple(tuple(range(a, b)) for a, b in pairwise(ends))
    weighted = {"partition": {"kind": "assigned", "clients": lists}, "client_weights": "samples"}
    with pytest.raises(ConfigError, match="client_weights: a member of weight 30"):
        simulation(**weighted)
    assert Assignments(experiment(MANY | weighted)).sampling is not None
