"""Metrics as coordinates: between their ends, below every clip, and back."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2ed.cli.roster import add, key, new, sign
from f2ed.cli.training_options import TrainingOptions
from f2ed.core.errors import ConfigError
from f2ed.deployment.masked_metrics import (
    MetricRule,
    encoded_metrics,
    merged_metrics,
    metric_values,
    read_metrics,
    width,
)
from f2ed.deployment.roster import read_roster
from f2ed.deployment.roster.steps import weaknesses
from f2ed.deployment.training_rules import TrainingRules
from f2ed.protocol.quantization.encoding import Encoding

RULES = (MetricRule("ages", 0.0, 100.0, 3), MetricRule("loss", -1.0, 10.0))
numbers = st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4)


def test_whole_numbers_as_ends_are_signed_as_they_are_read_back():
    rule = MetricRule("accuracy", 0, 1)
    written = msgspec.json.encode(rule)
    assert msgspec.json.encode(msgspec.json.decode(written, type=MetricRule)) == written


@pytest.mark.parametrize("clip_norm", [float("inf"), 1.0, 1e-3])
@given(values=numbers)
def test_metrics_stay_below_every_clip_and_come_back_between_their_ends(values, clip_norm):
    encoding = Encoding(0.5, clip_norm, 20, 32)
    row = encoded_metrics(RULES, np.array(values), encoding)
    assert np.abs(row).max() <= encoding.clip_value
    assert np.linalg.norm(row) <= encoding.clip_norm
    found = read_metrics(RULES, row[None], encoding, {0: 1})
    expected = np.clip(values, [0, 0, 0, -1], [100, 100, 100, 10])
    assert [*found.mean("ages"), found.mean("loss")] == pytest.approx(expected.tolist(), abs=1e-6)


def test_means_and_totals_count_each_client_once():
    encoding = Encoding(1.0, float("inf"), 20, 32)
    rows = np.stack([encoded_metrics(RULES, np.array([a, 0, 0, a]), encoding) for a in (1.0, 4.0)])
    found = read_metrics(RULES, rows, encoding, {0: 1, 3: 2})
    assert found.mean("loss") == pytest.approx(3.0)
    assert found.total("ages") == pytest.approx([9.0, 0.0, 0.0])
    assert found.means().keys() == {"ages", "loss"}
    assert read_metrics(RULES, rows[:0], encoding, {}).means() == {}
    with pytest.raises(ConfigError, match="there is no metric 'age'; the roster names ages, loss"):
        found.mean("age")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"loss": 1.0}, "returned no metric 'ages'"),
        ({"loss": 1.0, "ages": [1.0]}, "has 1 numbers"),
        ({"loss": [1.0], "ages": [1.0] * 3}, "has 1 numbers"),
    ],
)
def test_an_app_that_returns_others_is_told(found, why):
    with pytest.raises(ConfigError, match=why):
        metric_values(RULES, found)


@pytest.mark.parametrize("values", [[1.0] * 3, [1.0, 2.0, 3.0, float("nan")]])
def test_a_vector_that_is_none_is_refused_by_the_holder_of_the_key(values):
    with pytest.raises(ConfigError, match="not finite, or not as many"):
        encoded_metrics(RULES, np.array(values), Encoding(1.0, float("inf"), 20, 32))


def test_rules_are_written_replaced_and_removed():
    rules = merged_metrics((), ["loss=0..10", "ages=0..1e3x8"])
    assert [f"{rule.name}={rule}" for rule in rules] == ["ages=0..1000x8", "loss=0..10"]
    assert width(rules) == 9
    assert merged_metrics(rules, ["ages=", "loss=0..5"]) == (MetricRule("loss", 0.0, 5.0),)


@pytest.mark.parametrize(
    "text", ["loss", "loss=1", "loss=5..1", "loss=0..inf", "loss=0..1x-2", "loss=0..1xmany", "=0..1"]
)
def test_a_rule_that_cannot_be_read_is_refused(text):
    with pytest.raises(ConfigError, match="cannot be read"):
        merged_metrics((), [text])


def test_the_authority_signs_metrics_and_sites_must_agree_to_new_ones(tmp_path, capsys):
    roster, authority = tmp_path / "roster.json", tmp_path / "authority.key"
    new(roster, name="clinics", authority=authority)
    for client in range(4):
        key(tmp_path / f"clinic_{client}.key")
    add(roster, [tmp_path / f"clinic_{client}.pub" for client in range(4)])
    sign(roster, authority=authority, shards=1, min_crowd=4, accept=["unpinned-app"])
    before = read_roster(roster)
    assert b"metrics" not in roster.read_bytes()  # Rosters without any are what they were.
    sign(roster, authority=authority, training=TrainingOptions(metric=["accuracy=0..1"]))
    after = read_roster(roster)
    assert after.training.masked_metrics == (MetricRule("accuracy", 0.0, 1.0),)
    assert "metric accuracy=0..1, in sums under masks" in capsys.readouterr().out
    assert [*weaknesses(before, after)] == ["the metric accuracy=0..1 leaves the node, in sums"]
    assert [*weaknesses(after, before)] == []


def test_two_rules_for_one_metric_are_refused():
    with pytest.raises(ValueError, match="two rules for one metric"):
        TrainingRules(metrics=(MetricRule("a", 0, 1), MetricRule("a", 0, 2)))
