"""Learning rates that change over the rounds, and runs that end early."""

import numpy as np
import pytest

import f2ed
from f2ed.core.errors import ConfigError
from f2ed.core.rate_schedules import StepRate
from f2ed.experiments.file import parse
from f2ed.experiments.grid import expand
from f2ed.experiments.runner import finished_before, run_cell
from f2ed.learning import Score, Training
from f2ed.simulation import Simulation, experiment
from f2ed.simulation.checkpoint import pack, unpack
from f2ed.simulation.early_stopping import NOT_STARTED, EarlyStopping
from tests.simulation.small_run import SMALL

STUCK = SMALL | {"training": {"lr": 1e-12}, "rounds": 9, "malicious": 0, "clip_value": 1e-3}


def waited(stopping, values):
    state, found = NOT_STARTED, []
    for round_, value in enumerate(values):
        state = stopping(state, Score(value, -value, None), round_)
        found.append(state.ended)
    return found


def test_patience_by_hand():
    assert waited(EarlyStopping(patience=2), [0.1, 0.2, 0.2, 0.1]) == [
        "", "", "", "the accuracy did not improve for 2 rounds; the best was 0.2, in round 1",
    ]  # fmt: skip
    assert waited(EarlyStopping(patience=2), [0.1, 0.2, 0.2, 0.3]) == [""] * 4
    assert waited(EarlyStopping(patience=2, min_delta=0.2), [0.1, 0.2, 0.3])[-1].startswith("the accuracy")
    assert waited(EarlyStopping(patience=1, metric="loss"), [0.1, 0.2, 0.1])[-1].startswith("the loss did not improve")
    assert waited(EarlyStopping(patience=2, metric="loss"), [float("nan")] * 2)[-1] == (
        "the loss did not improve for 2 rounds"
    )


def test_a_run_that_does_not_improve_ends_with_the_reason():
    run = f2ed.simulate(**STUCK, early_stopping=2)
    assert len(run.records) == 3
    assert run.records[-1].run_ended.startswith("the accuracy did not improve for 2 rounds; the best was")
    assert not run.records[1].run_ended
    assert run.log.finished
    assert "3 of 9 rounds" in repr(run)
    assert "ended early: the accuracy did not improve" in repr(run)


def test_a_resumed_run_remembers_the_best():
    simulation = Simulation(experiment(STUCK | {"early_stopping": {"patience": 3, "metric": "loss"}}), workers=1)
    through = [state for state, _ in simulation.rounds()]
    again = unpack(pack(through[0], simulation.digest), simulation.digest, simulation.device)
    assert [state.round for state, _ in simulation.rounds(again)] == [state.round for state in through[1:]]


def test_a_run_that_ended_early_is_not_run_again(tmp_path):
    text = """
    data = { kind = "synthetic", train = 240, test = 60, side = 4 }
    training = { lr = 1e-12 }
    clients = 12
    shards = 4
    rounds = 9
    early_stopping = { patience = 1 }
    """
    (cell,) = expand(parse(text, "mine.toml"))
    data = cell.experiment.data.load(None)
    events = [kind for kind, _ in run_cell(cell, tmp_path, data=data)]
    assert events == ["began", "round", "round", "finished"]
    assert len(finished_before(cell, tmp_path).rounds) == 2


def test_the_learning_rate_follows_its_schedule():
    training = Training(lr=0.8, lr_schedule=StepRate(every=2, factor=0.5))
    assert [training.at(round_).lr for round_ in range(5)] == [0.8, 0.8, 0.4, 0.4, 0.2]
    assert training.at(3) == Training(lr=0.4)
    assert Training().at(7) is not None


@pytest.mark.parametrize("attack", [None, "label-flip"])
def test_a_round_trains_at_the_rate_of_the_round(attack):
    attacked = SMALL if attack is None else SMALL | {"attack": attack, "estimator": "mean"}
    slower = {"kind": "step", "every": 1, "factor": 0.25}
    scheduled = Simulation(experiment(attacked | {"training": {"lr": 0.4, "lr_schedule": slower}}), workers=1)
    state = scheduled.step(scheduled.start())[0]
    plain = Simulation(experiment(attacked | {"training": {"lr": 0.1}}), workers=1)
    assert np.array_equal(scheduled.step(state)[0].model, plain.step(state)[0].model)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"early_stopping": 0}, "early_stopping.patience"),
        ({"early_stopping": {}}, "early_stopping.patience is missing"),
        ({"early_stopping": {"patience": 1, "metric": "f1"}}, "early_stopping.metric"),
        ({"early_stopping": 3, "loss": "mse"}, "early_stopping: this loss has no accuracy"),
        ({"training": {"lr_schedule": {"kind": "cosine"}}}, "training.lr_schedule.rounds is missing"),
        ({"training": {"lr_schedule": {"kind": "linear"}}}, "training.lr_schedule.kind: there is no 'linear'"),
    ],
)
def test_what_cannot_work_is_refused(changed, reason):
    rng = np.random.default_rng(0)
    data = {"data": (rng.normal(size=(240, 4)), rng.normal(size=240), rng.normal(size=(20, 4)), rng.normal(size=20))}
    with pytest.raises(ConfigError, match=reason):
        Simulation(experiment(SMALL | (data if "loss" in changed else {}) | changed), workers=1)
