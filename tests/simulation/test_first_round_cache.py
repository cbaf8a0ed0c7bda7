"""Runs that begin alike train their first round once, and nobody could tell."""

from dataclasses import replace

import msgspec
import pytest
import torch

from f2ed.learning import Cohort
from f2ed.simulation import Simulation, experiment
from f2ed.simulation.first_round_cache import FirstRoundCache
from tests.simulation.small_run import SMALL


@pytest.fixture
def trained(monkeypatch):
    """The rounds that were trained, one entry for each time."""
    rounds, real = [], Cohort.__call__

    def counted(self, start, jobs, *, seed, round_):
        rounds.append(round_)
        return real(self, start, jobs, seed=seed, round_=round_)

    monkeypatch.setattr(Cohort, "__call__", counted)
    return rounds


def end(first_rounds=None, **changes):
    """Run to the end; return the last model's bytes and the records but for their timings."""
    simulation = Simulation(experiment(SMALL | changes), workers=1, first_rounds=first_rounds)
    states, records = zip(*simulation.rounds(), strict=True)
    without_timings = [msgspec.structs.replace(record, seconds=type(record.seconds)()) for record in records]
    return states[-1].model.numpy().tobytes(), without_timings


# The last two train their malicious clients in their own way, so that fewer clients train along with the honest ones.
ARMS = [
    {"estimator": "mean"},
    {"estimator": "krum", "attack": "trimmed-mean-attack"},
    {"attack": {"kind": "krum-attack", "shard_aware": True}, "client_momentum": 0.9},
    {"attack": {"kind": "model-replacement", "boost": "shard"}},
    {"attack": "label-flip", "estimator": "median", "shards": "none"},
]


def test_runs_end_the_same_whether_they_share_or_not(trained):
    alone = [end(**arm) for arm in ARMS]
    assert trained.count(0) > len(ARMS)
    first_rounds = FirstRoundCache()
    assert [end(first_rounds, **arm) for arm in (*ARMS, *reversed(ARMS))] == [*alone, *reversed(alone)]


def test_honest_training_of_the_first_round_is_done_once(trained):
    first_rounds = FirstRoundCache()
    for arm in ARMS[:3]:
        end(first_rounds, **arm)
    rounds = experiment(SMALL).rounds
    assert trained == [*range(rounds), *range(1, rounds), *range(1, rounds)]


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"clients": 13},
        {"training": {"lr": 0.2}},
        {"model": {"kind": "mlp", "hidden": [5]}},
        {"partition": {"kind": "dirichlet", "alpha": 5.0}},
        {"data": {"kind": "synthetic", "train": 250, "test": 60, "side": 4}},
    ],
    ids=str,
)
def test_runs_that_begin_otherwise_share_nothing(trained, other):
    first_rounds = FirstRoundCache()
    end(first_rounds)
    end(first_rounds, **other)
    assert trained.count(0) == 2


def test_a_run_that_goes_on_from_elsewhere_trains_for_itself(trained):
    first_rounds = FirstRoundCache()
    end(first_rounds)
    simulation = Simulation(experiment(SMALL), workers=1, first_rounds=first_rounds)
    begun = simulation.start()
    simulation.step(replace(begun, model=begun.model + 1))
    assert trained.count(0) == 2


def test_no_more_is_kept_than_fits_and_the_least_recently_used_goes_first():
    trained = []
    cache = FirstRoundCache(limit=4 * 10)
    for name, size in [("a", 4), ("b", 4), ("a", 4), ("c", 4), ("a", 4), ("b", 4), ("large", 11), ("large", 11)]:
        if cache.get(name) is None:
            trained.append(name)
            cache.put(name, torch.zeros(size))
    assert trained == ["a", "b", "c", "b", "large", "large"]


def test_what_a_run_does_to_its_updates_stays_its_own():
    cache, updates = FirstRoundCache(), torch.zeros(3)
    cache.put("same", updates)
    for _ in range(3):
        updates += 1
        updates = cache.get("same")
        assert not updates.any()
