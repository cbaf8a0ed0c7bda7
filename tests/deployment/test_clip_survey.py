"""Clips from a survey: what honest updates need, whatever the malicious clients answer."""

import numpy as np
import pytest

from f2ed.core.errors import ConfigError
from f2ed.deployment.clip_survey import POWERS, SIZES, SURVEY, SURVEY_METRIC, propose_clips, survey_answers
from f2ed.deployment.masked_metrics import Measured, MetricRule, merged_metrics

RULES = merged_metrics((), [SURVEY_METRIC])
WIDTH = len(SIZES) * len(POWERS)


def measured(answers, rules=RULES, shard=4):
    """Return what a server learns of these answers, in shards of four."""
    rows = np.array(answers, np.float64)
    parts = np.array_split(rows, max(1, len(rows) // shard))
    return Measured(
        rules,
        {place: part.mean(axis=0) for place, part in enumerate(parts)},
        {place: len(part) for place, part in enumerate(parts)},
    )


def honest(count=12, largest=0.03, buffer=3.0):
    sizes = np.linspace(0.2, 1, count)
    return [
        survey_answers({"coordinate": largest * each, "buffer": buffer * each, "norm": 10 * each}) for each in sizes
    ]


def test_the_proposal_is_the_power_of_two_above_the_largest_update_times_the_margin():
    found = propose_clips(measured(honest()), margin=4)
    assert (found.clip_value, found.buffer_clip, found.clip_norm) == (4 / 32, 4 * 4, 4 * 16)
    assert found.options() == "--clip-value 0.125 --buffer-clip 16"
    assert "surveyed 12 clients; with a margin of 4: f2ed roster sign ROSTER --clip-value 0.125" in str(found)


def test_a_model_without_buffers_gets_no_clip_for_them():
    found = propose_clips(measured(honest(buffer=0)))
    assert found.buffer_clip is None
    assert found.options() == "--clip-value 0.125"


@pytest.mark.parametrize("lie", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("malicious", [1, 2])
def test_malicious_clients_raise_no_clip_beyond_what_honest_updates_need(lie, malicious):
    """Each of them sets the sum of its shard of four, anywhere in the range of a sum."""
    answers = np.array(honest(24))
    answers[4 : 4 + 4 * malicious] = lie
    found = propose_clips(measured(answers), malicious=malicious, margin=1)
    assert found.clip_value <= 1 / 32
    within = sum(0.03 * each <= found.clip_value for each in np.linspace(0.2, 1, 24))
    assert within >= 24 - 2 * 4 * malicious


@pytest.mark.parametrize("lie", [-3.0, 0.0])
def test_one_liar_cannot_make_it_propose_a_clip_that_stops_nobody(lie):
    """It denies in the name of all of its shard that any power is enough."""
    answers = np.array(honest(24))
    answers[:4] = lie
    assert propose_clips(measured(answers), malicious=1, margin=1).clip_value == 1 / 32


@pytest.mark.parametrize("lie", [5.0, 1.0])
def test_one_liar_cannot_make_it_cut_most_of_the_honest_updates(lie):
    """It says in the name of all of its shard, or of more, that the smallest power is enough."""
    answers = np.array(honest(24))
    answers[:4] = lie
    assert propose_clips(measured(answers), malicious=1, margin=1).clip_value >= 1 / 64


def test_without_the_assumption_one_liar_can_prevent_a_proposal():
    with pytest.raises(ConfigError, match="fewer than 12 clients have a coordinate of at most 2048"):
        propose_clips(measured([*honest(11), [0.0] * WIDTH]))


def test_noise_of_the_encoding_changes_nothing():
    answers = np.array(honest()) + np.random.default_rng(0).normal(0, 1e-3, (12, WIDTH))
    assert propose_clips(measured(answers)) == propose_clips(measured(honest()))


@pytest.mark.parametrize("margin", [0.5, float("nan")])
def test_a_margin_that_cuts_is_refused(margin):
    with pytest.raises(ConfigError, match="it must be 1 or more"):
        propose_clips(measured(honest()), margin=margin)


def test_a_survey_in_which_no_shard_opened_is_refused():
    with pytest.raises(ConfigError, match="no shard opened, so no update was surveyed"):
        propose_clips(Measured(RULES, {}, {}))


@pytest.mark.parametrize("malicious", [-1, 2, 12])
def test_too_many_malicious_clients_are_refused(malicious):
    with pytest.raises(ConfigError, match="a survey says something where these are fewer than half"):
        propose_clips(measured(honest()), malicious=malicious)


def test_another_metric_of_that_name_is_refused():
    with pytest.raises(ConfigError, match=r"is another; the authority signs --metric clip-survey=0\.\.1x96"):
        propose_clips(measured([[1.0] * 5] * 4, (MetricRule(SURVEY, 0.0, 1.0, 5),)))


def test_a_roster_without_the_metric_is_refused():
    with pytest.raises(ConfigError, match="there is no metric 'clip-survey'"):
        propose_clips(measured([[1.0]] * 4, (MetricRule("loss", 0.0, 1.0),)))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_sizes_that_are_none_are_refused(bad):
    with pytest.raises(ConfigError, match="they must be finite"):
        survey_answers({"coordinate": bad, "buffer": 0.0, "norm": 1.0})
