"""Buffers travel behind the trained part, with a clip and an estimate of their own."""

import numpy as np
import pytest

from f2ed import ConfigError, FilterL2, Mean
from f2ed.protocol.aggregation import ArrayClip, Buffers, FedAdam, ServerStep, StepState, plan_update

MODEL = [("0.weight", 6), ("0.bias", 2), ("1.running_mean", 2), ("1.running_var", 2), ("empty", 0), ("2.weight", 4)]


def test_without_rules_the_order_is_the_models():
    plan = plan_update(MODEL, None, clip_value=1.0)
    assert (plan.places, plan.staying, plan.trained, plan.coordinates) == ((0, 1, 2, 3, 5), (), 16, 16)
    assert not plan.scales


def test_buffers_come_last_with_their_own_clip():
    plan = plan_update(MODEL, Buffers(clip_value=8.0), clip_value=2.0)
    assert (plan.places, plan.sizes, plan.trained) == ((0, 1, 5, 2, 3), (6, 2, 4, 2, 2), 12)
    assert plan.factors == (1.0, 1.0, 1.0, 4.0, 4.0)
    assert plan.trained_places == {0, 1, 5}


def test_variances_that_travel_are_known():
    assert plan_update(MODEL, Buffers(), clip_value=1.0).variances == {3}
    assert plan_update(MODEL, Buffers(policy="keep"), clip_value=1.0).variances == set()
    assert plan_update(MODEL, None, clip_value=1.0).variances == set()


@pytest.mark.parametrize("policy", ["keep", "local"])
def test_buffers_that_stay_are_not_part_of_the_update(policy):
    plan = plan_update(MODEL, Buffers(policy=policy), clip_value=1.0)
    assert (plan.places, plan.staying, plan.coordinates) == ((0, 1, 5), (2, 3), 12)


def test_single_arrays_have_clips_of_their_own_and_the_first_pattern_counts():
    clips = (ArrayClip("2.*", 0.5), ArrayClip("*weight", 3.0), ArrayClip("*running_var", 100.0))
    plan = plan_update(MODEL, Buffers(clips=clips), clip_value=1.0)
    assert dict(zip([MODEL[place][0] for place in plan.places], plan.factors, strict=True)) == {
        "0.weight": 3.0,
        "0.bias": 1.0,
        "2.weight": 0.5,
        "1.running_mean": 10.0,
        "1.running_var": 100.0,
    }


def test_widening_undoes_narrowing_and_the_given_update_is_left_alone():
    plan = plan_update(MODEL, Buffers(clip_value=8.0), clip_value=1.0)
    update = np.linspace(-3, 3, 16, dtype=np.float32)
    before = update.copy()
    narrow = plan.narrowed(update)
    np.testing.assert_array_equal(narrow[:12], update[:12])
    np.testing.assert_array_equal(narrow[12:], update[12:] / 8)
    np.testing.assert_array_equal(update, before)
    rows = np.stack([narrow, narrow])
    plan.widen(rows)
    np.testing.assert_array_equal(rows, [update, update])


def test_a_model_of_buffers_alone_is_refused():
    with pytest.raises(ConfigError, match="nothing to average"):
        plan_update(MODEL[2:4], Buffers(), clip_value=1.0)


def test_clips_that_are_too_far_apart_are_refused():
    with pytest.raises(ConfigError, match="choose closer values"):
        plan_update(MODEL, Buffers(clip_value=1e30), clip_value=1e-30)


@pytest.mark.parametrize("settings", [{"policy": "forget"}, {"clip_value": 0.0}, {"names": ("",)}])
def test_rules_that_make_no_sense_are_refused(settings):
    with pytest.raises(ConfigError):
        Buffers(**settings)


def rows(seed=0, n=10, trained=20, buffers=6):
    honest = np.random.default_rng(seed).normal(0, 0.01, (n, trained + buffers)).astype(np.float32)
    honest[:, trained:] *= 100
    return honest


def test_buffers_do_not_enter_the_distances_of_the_trained_part():
    step = ServerStep(FilterL2(contamination=0.2), tensors=(20, 6), trained=20)
    plain = rows()
    noisy = plain.copy()
    noisy[:, 20:] *= 50
    one, other = (step(each, StepState(), round_=0).estimate for each in (plain, noisy))
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.mean[:20], other.mean[:20])
    whole = ServerStep(FilterL2(contamination=0.2), tensors=(26,))
    hidden = plain.copy()
    hidden[3, :20] += 0.2
    assert step(hidden, StepState(), round_=0).estimate.weights[3] == 0
    assert whole(hidden, StepState(), round_=0).estimate.weights[3] > 0, "the scale of the buffers hides it"


def test_an_attack_on_the_buffers_alone_is_filtered_too():
    step = ServerStep(FilterL2(contamination=0.2), tensors=(20, 6), trained=20)
    attacked = rows()
    attacked[3, 20:] += 100
    moved = step(attacked, StepState(), round_=0).step
    assert np.abs(moved[20:]).max() < 2
    assert np.abs(ServerStep(Mean(), tensors=(20, 6), trained=20)(attacked, StepState(), round_=0).step[20:]).max() > 9


def test_the_server_optimizer_moves_the_trained_part_alone():
    step = ServerStep(Mean(), optimizer=FedAdam(eta=0.1), tensors=(20, 6), trained=20)
    state = StepState()
    for round_ in range(3):
        result = step(rows(round_), state, round_=round_)
        state = StepState.from_bytes(result.state.to_bytes())
        np.testing.assert_array_equal(result.step[20:], result.estimate.mean[20:])
        assert np.abs(result.step[:20] - result.estimate.mean[:20]).max() > 0.01
    assert [len(each) for each in state.optimizer.memory] == [20, 20]
    assert state.previous is None, "the mean does not read it"
