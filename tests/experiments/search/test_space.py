"""What a search may propose: every proposal is a valid attack, and every setting of interest varies."""

import numpy as np
import pytest

from f2ed.experiments.search.objective import OBJECTIVES
from f2ed.experiments.search.space import Space, kinds_for
from f2ed.simulation import experiment
from f2ed.simulation.validate import check


class Random:
    """Chooses at random, or what it is told."""

    def __init__(self, seed, told=None):
        self.rng, self.told = np.random.default_rng(seed), told or {}

    def _given(self, name, value):
        return self.told.get(name, value)

    def suggest_categorical(self, name, choices):
        return self._given(name, choices[self.rng.integers(len(choices))])

    def suggest_float(self, name, low, high, *, log=False):
        value = np.exp(self.rng.uniform(np.log(low), np.log(high))) if log else self.rng.uniform(low, high)
        return self._given(name, float(value))

    def suggest_int(self, name, low, high):
        return self._given(name, int(self.rng.integers(low, high + 1)))


def space(objective, *, sharded=True):
    return Space(objective, kinds_for(objective, ()), 30, sharded, 0.1, 1)


def settings(proposed, *, sharded=True):
    return {
        "data": "mnist",
        "clients": 100,
        "malicious": 10,
        "shards": 25 if sharded else "none",
        "secure": False,
        "rounds": 30,
        **proposed,
    }


@pytest.mark.parametrize("sharded", [True, False])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_proposal_is_a_valid_attack(objective, sharded):
    for kind in kinds_for(objective, ()):
        for seed in range(5):
            proposed = space(objective, sharded=sharded).propose(Random(seed, {"kind": kind}))
            made = experiment(settings(proposed, sharded=sharded))
            check(made)
            assert made.attack.__struct_config__.tag == kind


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_usual_attacks_are_within_the_ranges(objective):
    """They are found again from their parameters alone, so that nothing is left to chance."""
    for known in space(objective).known():
        one, other = (space(objective).propose(Random(seed, known)) for seed in (0, 1))
        assert one == other
        assert one["attack_from"] == 0
        check(experiment(settings(one)))


def test_a_backdoor_sent_as_trained_is_tried_first():
    first = space("backdoor").propose(Random(0, space("backdoor").known()[0]))
    assert first["attack"]["kind"] == "model-replacement"
    assert (first["attack"]["boost"], first["attack"]["shard_aware"]) == (1.0, False)
    assert first["placement"] is None


def test_the_attackers_rate_and_epochs_are_multiples_of_the_honest_ones():
    given = Space("backdoor", ("dba",), 30, True, 0.001, 5)
    proposed = given.propose(Random(0, {"lr_factor": 2.0, "epochs_factor": 3}))
    assert (proposed["attack"]["lr"], proposed["attack"]["epochs"]) == (0.002, 15)


def test_only_wanted_kinds_are_proposed():
    assert kinds_for("backdoor", ("dba", "ipm")) == ("dba",)
    assert kinds_for("accuracy", ("dba", "ipm")) == ("ipm",)
