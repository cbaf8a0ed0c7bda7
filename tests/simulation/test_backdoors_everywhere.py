"""Every backdoor works however the data and the shards are arranged."""

import pytest

from f2ed.attacks import A3FL, IBA, Goal, Success
from f2ed.simulation import Simulation, experiment, simulate
from tests.attacks.attack_examples import ALL, name

SETTINGS = {
    "data": {"kind": "synthetic", "train": 240, "test": 60, "side": 6},
    "model": {"kind": "mlp", "hidden": [8]},
    "clients": 12,
    "malicious": 2,
    "shards": 4,
    "rounds": 2,
    "attack_from": 1,
    "secure": False,
    "estimator": "median",
}
ARRANGED = {
    "i.i.d.": {"placement": "packed"},
    "three classes": {"partition": {"kind": "pathological", "classes_per_client": 3}},
    "Dirichlet": {"partition": {"kind": "dirichlet", "alpha": 0.5}},
    "no shards": {"shards": "none"},
    "pairs": {"schedule": {"kind": "batches", "size": 2}, "shards": 3, "placement": "spread"},
}
BACKDOORS = [attack for attack in ALL if type(attack).family == "backdoor"]


@pytest.mark.parametrize("arranged", ARRANGED)
@pytest.mark.parametrize("attack", BACKDOORS, ids=name)
def test_a_backdoor_is_trained_sent_and_measured(attack, arranged):
    before, after = simulate(SETTINGS | ARRANGED[arranged] | {"attack": attack}).records
    assert 0 <= before.success <= 1
    assert 0 <= after.success <= 1
    assert after.contaminated


@pytest.mark.parametrize("attack", [A3FL(), IBA()], ids=name)
def test_a_learned_trigger_is_measured_in_the_round_that_it_was_learned_in(attack, monkeypatch):
    learned, shown = [], []
    learn = type(attack).learn
    monkeypatch.setattr(type(attack), "learn", lambda *args: learned.append(learn(*args)) or learned[-1])
    monkeypatch.setattr(Goal, "success", lambda goal, _predicted: shown.append(goal) or Success(0.0, 0.0))
    simulate(SETTINGS | {"attack": attack, "rounds": 3}).records  # noqa: B018  runs them
    assert [goal.learned is None for goal in shown] == [True, False, False]
    assert shown[1:] == learned


def test_a_run_with_a_learned_trigger_goes_on_from_any_round():
    run = Simulation(experiment(SETTINGS | {"attack": IBA(), "rounds": 3}))
    (state, _), *rest = run.rounds()
    again = Simulation(experiment(SETTINGS | {"attack": IBA(), "rounds": 3})).rounds(state)
    assert [record.success for _, record in rest] == [record.success for _, record in again]


@pytest.mark.parametrize("attack", BACKDOORS, ids=name)
def test_success_against_other_models_is_measured_as_in_the_run(attack):
    """Against the models of the run itself it is the same, also with a trigger that is learned in the round."""
    run = Simulation(experiment(SETTINGS | {"attack": attack, "rounds": 3}))
    state = run.start()
    for after, record in run.rounds():
        assert run.success_against(run.evaluated(state), run.evaluated(after), record.round) == record.success
        state = after


def test_what_is_measured_against_other_models_does_not_change_the_run():
    whole = [record.success for _, record in Simulation(experiment(SETTINGS | {"attack": IBA()})).rounds()]
    run = Simulation(experiment(SETTINGS | {"attack": IBA()}))
    other = run.evaluated(run.start())
    found = []
    for _, record in run.rounds():
        run.success_against(other, other, record.round)
        found.append(record.success)
    assert found == whole


def test_an_attack_without_a_goal_has_no_success_against_other_models():
    run = Simulation(experiment(SETTINGS | {"attack": "ipm"}))
    assert run.success_against(run.evaluated(run.start()), run.evaluated(run.start()), 0) is None
