"""The server step that every driver takes: exact over restarts, for every estimator."""

from typing import ClassVar

import numpy as np
import pytest
import torch

from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.estimators import (
    Bucketing,
    CenteredClipping,
    Estimate,
    Estimator,
    FilterL2,
    Krum,
    Mean,
    Median,
    Reputation,
    Sections,
)
from f2ed.protocol.aggregation import ServerOptimizer, ServerStep, StepState
from tests.estimators.examples import ALL, EXTRA, name

TENSORS = (6, 15)
NAMES = tuple("abcdefghijk")
ROOT = np.ones(sum(TENSORS), np.float32)


def opened(round_, n=11):
    return np.random.default_rng(round_).normal(1, 1, (n, sum(TENSORS))).astype(np.float32)


def taken(step, rounds, state=None):
    state = state or StepState()
    for round_ in rounds:
        result = step(opened(round_), state, round_=round_, names=NAMES, root=ROOT)
        state = result.state
    return result


@pytest.mark.parametrize("estimator", ALL + EXTRA, ids=name)
def test_a_restart_changes_no_bit(estimator):
    step = ServerStep(estimator, tensors=TENSORS, seed=5)
    through = taken(step, range(3))
    before = taken(step, range(2)).state
    after = taken(step, [2], StepState.from_bytes(before.to_bytes()))
    assert through.skipped is None
    assert after.skipped is None
    assert after.estimate.mean.tobytes() == through.estimate.mean.tobytes()
    assert after.state.to_bytes() == through.state.to_bytes()


@pytest.mark.parametrize("estimator", ALL + EXTRA, ids=name)
def test_the_estimator_gets_the_previous_step_the_tensors_and_the_rounds_own_stream(estimator):
    step = ServerStep(estimator, tensors=TENSORS, seed=5)
    state = taken(step, [0]).state
    reputation = np.array([state.reputation.get(each, 1.0) for each in NAMES])
    rng = stream(5, "estimator", 1)
    direct = estimator(opened(1), previous=state.previous, tensors=TENSORS, rng=rng, root=ROOT, reputation=reputation)
    assert step(opened(1), state, round_=1, names=NAMES, root=ROOT).estimate.mean.tobytes() == direct.mean.tobytes()


def test_centered_clipping_goes_on_from_the_previous_step():
    step = ServerStep(CenteredClipping(radius=0.1), tensors=TENSORS)
    first, second = taken(step, [0]), taken(step, [0, 0])
    assert np.linalg.norm(second.estimate.mean) > 1.5 * np.linalg.norm(first.estimate.mean)


def patient(round_):
    """Nine honest rows, and two that push a little in every round: not enough to be rejected at once."""
    rows = np.random.default_rng(round_).normal(0, 1, (11, 21)).astype(np.float32)
    rows[:2] += 1.2
    return rows


def test_a_row_whose_weight_stays_low_is_rejected_in_the_end_and_keeps_its_reputation_while_it_is_absent():
    step = ServerStep(Reputation(FilterL2(f=2)), tensors=TENSORS)
    state, first = StepState(), None
    for round_ in range(25):
        result = step(patient(round_), state, round_=round_, names=NAMES)
        first, state = first or result, result.state
    assert result.estimate.weights[:2].sum() < first.estimate.weights[:2].sum() / 2
    left = step(patient(25)[2:], state, round_=25, names=NAMES[2:]).state
    assert left.reputation["a"] == state.reputation["a"] < 0.6


def test_each_row_has_one_name():
    with pytest.raises(ConfigError, match="11 rows have 3 names"):
        ServerStep(Mean(), tensors=TENSORS)(opened(0), StepState(), round_=0, names=("a", "b", "c"))


def test_each_round_draws_its_own_buckets():
    step = ServerStep(Bucketing(2, Median()), tensors=TENSORS)
    one, other = (step(opened(0), StepState(), round_=round_).estimate.mean for round_ in (0, 1))
    assert not np.array_equal(one, other)


def test_sections_know_the_tensors():
    inner = Sections(Median(), size=None, per_tensor=True)
    assert taken(ServerStep(inner, tensors=TENSORS), [0]).estimate.stopped == "2 sections"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_the_state_keeps_every_bit(make, dtype):
    values = np.array([1 / 3, -0.0, 5e-324 if dtype == np.float64 else 1e-45, 3e38], dtype)
    again = StepState.from_bytes(StepState(make(values)).to_bytes()).previous
    assert again.dtype == dtype
    assert again.tobytes() == values.tobytes()


def test_the_first_state_is_empty_and_stays_so_in_bytes():
    assert StepState.from_bytes(StepState().to_bytes()).previous is None


@pytest.mark.parametrize("content", [b"", b"\x93", b"\x92\xa3<i4\xc4\x00", b"\x92\xa3<f4\xc4\x03abc"])
def test_bytes_that_are_no_state_are_refused(content):
    with pytest.raises(ConfigError, match="not the state of a server step"):
        StepState.from_bytes(content)


@pytest.mark.parametrize(
    ("n", "min_rows", "reason"),
    [(0, 1, "nothing was opened"), (4, 5, "4 rows opened, at least 5 are required")],
)
def test_a_round_with_too_few_rows_is_skipped(n, min_rows, reason):
    step = ServerStep(Mean(), tensors=TENSORS, min_rows=min_rows)
    before = taken(ServerStep(Mean(), tensors=TENSORS), [0]).state
    result = step(opened(0, n), before, round_=0)
    assert result.estimate is None
    assert result.skipped == reason
    assert result.state is before


class Diverged(Estimator, frozen=True, tag="diverged"):
    def estimate(self, rows):
        mean = rows.matrix.mean(axis=0)
        mean[1] = self.value
        return Estimate(mean)

    value: float = float("nan")


class Exploding(ServerOptimizer, frozen=True, tag="exploding"):
    vectors: ClassVar[int] = 0

    def move(self, mean, memory, *, scale, steps):  # noqa: ARG002  the signature of every optimizer
        return mean * np.float32(3e38) * np.float32(10), memory


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_a_mean_that_is_not_finite_leaves_the_model_as_it_is(convert, value):
    rows, state = convert(np.ones((3, 4), np.float32)), StepState()
    result = ServerStep(Diverged(value=value), tensors=(4,))(rows, state, round_=0)
    assert result.skipped == "the mean of Diverged is not a finite number in every coordinate"
    assert (result.step, result.estimate, result.state) == (None, None, state)


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_step_of_the_optimizer_that_is_not_finite_leaves_the_model_as_it_is():
    rows = np.ones((3, 4), np.float32)
    result = ServerStep(Mean(), optimizer=Exploding(), tensors=(4,))(rows, StepState(), round_=0)
    assert result.skipped == "the server optimizer's step is not a finite number in every coordinate"


def test_large_coordinates_whose_sum_is_beyond_float32_are_a_step():
    rows = np.full((3, 4), 2e38, np.float32)
    assert ServerStep(Median(), tensors=(4,))(rows, StepState(), round_=0).skipped is None


def test_a_round_that_the_estimator_refuses_is_skipped_with_its_reason():
    result = ServerStep(Krum(0.4), tensors=TENSORS)(opened(0, 3), StepState(), round_=0)
    assert result.estimate is None
    assert "cannot use 3 rows: " in result.skipped


def test_the_state_of_another_model_is_refused_not_skipped():
    with pytest.raises(ConfigError, match="3 coordinates, and the rows have 21"):
        ServerStep(Mean(), tensors=TENSORS)(opened(0), StepState(np.zeros(3, np.float32)), round_=1)


def test_torch_rows_give_the_same_bits():
    step = ServerStep(CenteredClipping(), tensors=TENSORS)
    state = taken(step, [0]).state
    result = step(torch.from_numpy(opened(1)), StepState(torch.from_numpy(state.previous)), round_=1)
    assert result.estimate.mean.numpy().tobytes() == step(opened(1), state, round_=1).estimate.mean.tobytes()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("estimator", ALL + EXTRA, ids=name)
def test_on_a_gpu_a_restart_changes_no_bit(estimator):
    step = ServerStep(estimator, tensors=TENSORS, seed=5)
    rows = [torch.from_numpy(opened(round_)).to("cuda") for round_ in range(2)]
    before = step(rows[0], StepState(), round_=0).state
    through = step(rows[1], before, round_=1).estimate.mean
    after = step(rows[1], StepState.from_bytes(before.to_bytes()), round_=1).estimate.mean
    assert after.is_cuda
    assert torch.equal(after, through)
