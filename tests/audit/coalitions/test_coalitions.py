import numpy as np
import pytest

from f2ed.audit.coalitions import (
    CoalitionFinding,
    CoalitionSettings,
    Strip,
    audit_coalitions,
    coalition_page,
    helped_round,
)
from f2ed.audit.coalitions.cohort import LONGEST
from f2ed.audit.coalitions.scoring import Row
from f2ed.audit.server_view import draw_shard
from f2ed.core.errors import ConfigError
from f2ed.estimators import Mean, Resilience
from f2ed.learning.models import Mlp
from f2ed.protocol.helpers import HelpersProtocol

SETTINGS = CoalitionSettings(
    clients=32,
    colluders=(4, 16),
    hidden=64,
    rounds=(1, 40),
    client_dropout=0.1,
    helpers=HelpersProtocol(sketch=512, tests=8),
)


@pytest.fixture(scope="module")
def found(digits):
    return list(audit_coalitions(digits, SETTINGS, Mean()))


@pytest.fixture(scope="module")
def helped(digits):
    model = Mlp((16,))(digits.shape, digits.classes, 0)
    samples = draw_shard(digits, 20, 1, np.random.default_rng(0))
    return helped_round("untrained", model, digits, samples, HelpersProtocol(sketch=512, tests=8), rule=Mean())


def value(found, target, start, metric, model="untrained", rounds=None):
    (only,) = [
        one.found.value
        for one in found
        if isinstance(one, CoalitionFinding)
        and (one.target, one.metric, one.model) == (target, metric, model)
        and one.coalition.startswith(start)
        and rounds in (None, one.rounds)
    ]
    return only


def share(found, start, target="images", model="untrained"):
    return value(found, target, start, "share recovered", model)


def test_a_shard_of_four_gives_its_images_away_and_the_whole_cohort_few(found):
    assert share(found, "S, shards of 4") > 0.9
    assert share(found, "S, mean of 32") < 0.3
    assert share(found, "S, clipped shards of 4") > 0.5


def test_the_server_is_also_shown_a_clip_that_no_update_exceeds(found):
    assert share(found, "S, clip at the longest update") < 0.3
    assert value(found, "images", "S, clip at the longest update", "share recovered by chance") < 0.3


def test_no_update_is_longer_than_the_clip(helped):
    lengths = [np.linalg.norm(each) for each in helped.updates]
    assert max(lengths) <= helped.terms.clip_norm * (1 + 1e-6)
    assert np.median([np.linalg.norm(each) for each in helped.trained]) == pytest.approx(helped.terms.clip_norm)
    longest = helped.clipped(LONGEST)
    assert longest.terms.clip_norm == pytest.approx(max(np.linalg.norm(each) for each in helped.trained))
    assert all(np.array_equal(one, other) for one, other in zip(longest.updates, helped.trained, strict=True))


def test_no_single_party_sees_anything_in_a_masked_row_and_two_see_all(found):
    assert share(found, "S, masked rows") == share(found, "M, masked rows") == 0
    assert share(found, "S + M or S + J") == 1


def test_colluders_of_the_judge_see_more_the_more_they_are_and_less_through_the_sketch(found):
    def near(start):
        return value(found, "images", start, "PSNR, dB")

    few, many = (near(f"J + {count} clients, probing, exact") for count in (4, 16))
    assert near("J + 10 clients, own updates, exact") < few < many
    assert near("J + 16 clients, probing, K") < many


def test_the_judge_sees_labels_and_membership_by_name(found):
    assert value(found, "labels", "J + 10 clients, probing the last bias, exact", "share found") == 1
    assert value(found, "labels", "J alone", "share of clients") > 0.5
    assert value(found, "membership", "J + 10", "AUC") > 0.95


def test_a_malicious_model_reads_images_out_of_the_sum_of_all(found):
    assert share(found, "S, shards of 4", "malicious model", "malicious") > 0.6
    assert share(found, "S, mean of 32", "malicious model", "malicious") > 0.3


def test_fixed_groups_bound_what_the_sums_of_many_rounds_tell_and_nested_sets_do_not(found):
    groups, nested = (value(found, "rounds", f"S, {name}", "cosine", rounds=40) for name in ("fixed", "nested"))
    assert groups < 0.6 < nested


def test_images_that_no_client_has_are_hardly_recovered(found):
    chance = value(found, "images", "S, mean of", "share recovered by chance")
    assert chance <= 0.1


def test_few_colluders_probe_more_directions_over_rounds(found):
    later = value(found, "rounds", "J + 4 clients", "PSNR, dB")
    assert later > value(found, "images", "J + 4 clients, probing, K", "PSNR, dB")


def test_every_number_lies_in_its_interval_and_the_page_names_every_coalition(found):
    findings = [one for one in found if isinstance(one, CoalitionFinding)]
    for one in findings:
        assert one.found.low - 1e-9 <= one.found.value <= one.found.high + 1e-9, one
    page = coalition_page("title", findings, [Strip(file="a.png", caption="a row")])
    assert all(f"| {one.coalition} | {one.model} |" in page for one in findings)
    assert "![a row](a.png)" in page
    assert "Any two of server, mixer and judge together break the protection" in page


def test_rows_of_pictures_show_the_same_clients(found):
    rows = [one for one in found if isinstance(one, Row)]
    assert {one.pixels.shape for one in rows} == {(8, 80, 1)}
    assert {"untrained_true", "untrained_shards", "untrained_probing_16", "malicious_imprint"} <= {
        one.name for one in rows
    }
    true, shards = (
        next(one.pixels.astype(float) for one in rows if one.name == f"untrained_{name}") for name in ("true", "shards")
    )
    others = np.roll(shards, 8, axis=1)
    assert np.abs(true - shards).mean() < np.abs(true - others).mean() / 4


def test_a_coalition_that_leaves_nobody_is_refused():
    with pytest.raises(ConfigError, match="leave at least two others"):
        CoalitionSettings(clients=20, colluders=(19,))


def test_a_rule_that_opens_no_sum_is_reported(digits):
    helpers = HelpersProtocol(sketch=64, tests=2, crowd=20)
    settings = CoalitionSettings(clients=20, colluders=(2,), hidden=8, helpers=helpers)
    with pytest.raises(ConfigError, match="opens no sum of these clients"):
        list(audit_coalitions(digits, settings, Resilience(contamination=0.1)))
