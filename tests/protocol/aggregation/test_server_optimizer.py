"""Server optimizers: those of Flower, over a robust mean; exact over restarts, in NumPy and torch."""

from types import SimpleNamespace
from typing import get_args

import msgspec
import numpy as np
import pytest
import torch

from f2ed.core.errors import ConfigError
from f2ed.core.rate_schedules import StepRate
from f2ed.estimators import Mean
from f2ed.protocol.aggregation import (
    AnyServerOptimizer,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedYogi,
    OptimizerState,
    ServerStep,
    StepState,
)

ALL = [FedAvg(server_learning_rate=0.7), *(kind() for kind in get_args(AnyServerOptimizer))]
SIZES = (6, 15)


def name(optimizer):
    return repr(optimizer)


def means(rounds):
    """Return the means of some rounds, the last of them with far smaller values and a zero."""
    drawn = np.random.default_rng(3).normal(0.02, 0.05, (rounds, sum(SIZES))).astype(np.float32)
    drawn[-1] *= 1e-4
    drawn[:, 0] = 0
    return drawn


def steps(optimizer, rounds):
    state, found = OptimizerState(), []
    for round_, mean in enumerate(rounds):
        step, state = optimizer(mean, state, round_=round_)
        found.append(step)
    return found


def flowers_models(strategy, first, rounds):
    """Return the model after each round of one of Flower's strategies with a single client."""
    from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict

    model, found = first, []
    for number, mean in enumerate(rounds, 1):
        strategy.current_arrays = ArrayRecord({"w": Array(model)})
        if not isinstance(strategy, flower_strategies().FedAvgM):
            strategy.current_arrays = {"w": model}
        content = {"arrays": ArrayRecord({"w": Array(model + mean)}), "metrics": MetricRecord({"num-examples": 1})}
        reply = SimpleNamespace(has_error=lambda: False, has_content=lambda: True, content=RecordDict(content))
        moved, _ = strategy.aggregate_train(number, [reply])
        model = moved["w"].numpy()
        found.append(model)
    return found


def flower_strategies():
    return pytest.importorskip("flwr.serverapp.strategy")


@pytest.mark.parametrize(
    "optimizer",
    [
        FedAvgM(server_learning_rate=0.5, server_momentum=0.8),
        FedAdagrad(eta=0.3),
        FedAdam(eta=0.05, beta_1=0.8),
        FedYogi(tau=1e-2),
        FedAdam(),
        FedYogi(),
    ],
    ids=name,
)
def test_steps_are_those_of_flower(optimizer):
    settings = {key: value for key, value in msgspec.structs.asdict(optimizer).items() if key != "lr_schedule"}
    theirs = getattr(flower_strategies(), optimizer.title)(**settings)
    first, rounds = np.linspace(-1, 1, sum(SIZES)), means(6).astype(np.float64)
    ours = first + np.cumsum(steps(optimizer, rounds), axis=0)
    np.testing.assert_allclose(ours, flowers_models(theirs, first, rounds), rtol=0, atol=1e-13)


def test_the_default_step_is_the_mean_itself():
    mean = means(1)[0]
    assert FedAvg()(mean, OptimizerState(), round_=4)[0] is mean


def test_fedavgm_by_hand():
    found = steps(FedAvgM(server_learning_rate=2.0, server_momentum=0.5), [np.array([1.0]), np.array([3.0])])
    assert [float(step[0]) for step in found] == [2.0, 7.0]


@pytest.mark.parametrize("optimizer", ALL, ids=name)
def test_a_restart_changes_no_bit(optimizer):
    step = ServerStep(Mean(), optimizer=optimizer, tensors=SIZES)
    state, through = StepState(), []
    for again in (False, True):
        state = StepState()
        for round_, row in enumerate(means(4)):
            result = step(row[None], state, round_=round_)
            state = StepState.from_bytes(result.state.to_bytes()) if again else result.state
        through.append((result.step.tobytes(), state.to_bytes()))
    assert through[0] == through[1]


@pytest.mark.parametrize("optimizer", ALL, ids=name)
def test_torch_gives_the_same_bits_also_after_a_restart(optimizer):
    step, found = ServerStep(Mean(), optimizer=optimizer, tensors=SIZES), []
    for make in (np.asarray, torch.from_numpy):
        state = StepState()
        for round_, row in enumerate(means(3)):
            result = step(make(row[None]), state, round_=round_)
            state = StepState.from_bytes(result.state.to_bytes()) if round_ else result.state
        found.append(np.asarray(result.step).tobytes())
        assert type(result.step) is type(make(row))
    assert found[0] == found[1]


@pytest.mark.parametrize("optimizer", ALL, ids=name)
def test_the_rate_follows_its_schedule(optimizer):
    slower = msgspec.structs.replace(optimizer, lr_schedule=StepRate(every=2, factor=0.25))
    scales = [float(np.linalg.norm(b) / np.linalg.norm(a)) for a, b in zip(*_both(optimizer, slower), strict=True)]
    assert scales == pytest.approx([1, 1, 0.25, 0.25, 0.0625], rel=1e-5)


def _both(one, other):
    return steps(one, means(5)), steps(other, means(5))


def test_a_skipped_round_is_no_step():
    step = ServerStep(Mean(), optimizer=FedAdam(), tensors=SIZES)
    state = step(means(1), StepState(), round_=0).state
    skipped = step(means(1)[:0], state, round_=1)
    assert skipped.step is None
    assert skipped.state is state
    assert state.optimizer.steps == 1


def test_the_state_of_another_optimizer_is_refused():
    state = ServerStep(Mean(), optimizer=FedAdam(), tensors=SIZES)(means(1), StepState(), round_=0).state
    with pytest.raises(ConfigError, match="state of the server optimizer fedadam, and this is fedyogi"):
        ServerStep(Mean(), optimizer=FedYogi(), tensors=SIZES)(means(1), state, round_=1)


def test_an_optimizer_may_follow_fedavg_which_remembers_nothing():
    state = ServerStep(Mean(), tensors=SIZES)(means(1), StepState(), round_=0).state
    later = ServerStep(Mean(), optimizer=FedAdam(), tensors=SIZES)(means(1), state, round_=1)
    first = ServerStep(Mean(), optimizer=FedAdam(), tensors=SIZES)(means(1), StepState(), round_=0)
    assert later.step.tobytes() == first.step.tobytes()


def test_the_state_of_a_checkpoint_without_an_optimizer_is_read():
    found = StepState.from_bytes(msgspec.msgpack.encode(["<f4", b"\x00\x00\x80?"]))
    assert found.previous.tolist() == [1.0]
    assert found.optimizer.memory == ()


def test_a_state_with_a_vector_missing_is_refused():
    content = msgspec.msgpack.encode(["<f4", b"", "fedadam", 1, [[None, b""]]])
    with pytest.raises(ConfigError, match="a vector is missing"):
        StepState.from_bytes(content)


@pytest.mark.parametrize("settings", [{"eta": 0}, {"tau": 0}, {"beta_1": 1}, {"beta_2": -0.1}, {"eta": "fast"}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ConfigError):
        FedAdam(**settings)
