"""Which runs belong together, and how they look."""

from itertools import combinations
from typing import get_args

from f2ed.attacks import AnyAttack
from f2ed.estimators import AnyEstimator
from f2ed.records.intake import RecordedRun
from f2ed.records.text import privacy as remarks_on_privacy
from f2ed.report.arms import arms
from f2ed.report.colors import COLOURS, DASHES, Look, apart, look
from f2ed.report.crowd import privacy
from f2ed.report.labels import ATTACKS, ESTIMATORS
from tests.report.report_runs import header, record


def run(**settings):
    head = header(**settings)
    return RecordedRun(head.name, head, (record(head, 0),))


def tags(union):
    return {kind.__struct_config__.tag for kind in get_args(union)}


def test_runs_that_differ_in_the_seed_alone_are_one_arm():
    (arm,) = arms([run(seed=0), run(seed=1)])
    assert [each.header.seed for each in arm.runs] == [0, 1]
    assert (arm.attack, arm.estimator, arm.setting) == ("Trimmed-mean attack", "FilterL2", "")


def test_no_attack_comes_first():
    names = [
        arm.attack for arm in arms([run(attack="trimmed-mean-attack"), run(attack="none"), run(attack="krum-attack")])
    ]
    assert names == ["no attack", "Krum attack", "Trimmed-mean attack"]


def test_noise_is_a_setting_and_older_records_had_none():
    """Neither `dp: null` nor a header without the word makes an arm of its own."""
    found = arms([run(), run(dp=None), run(dp={"noise_multiplier": 0.1, "delta": 1e-5})])
    assert [(arm.setting, len(arm.runs)) for arm in found] == [("noise 0.1", 1), ("noise none", 2)]


def test_the_round_in_which_an_attack_begins_is_a_setting_and_in_older_records_it_was_the_first():
    found = arms([run(), run(attack_from=0), run(attack_from=10)])
    assert [(arm.setting, len(arm.runs)) for arm in found] == [("attack from 0", 2), ("attack from 10", 1)]


def test_the_privacy_table_tells_the_epsilon_of_who_lost_most():
    noisy = header(dp={"noise_multiplier": 0.1, "delta": 1e-5})
    told = RecordedRun("noisy", noisy, (record(noisy, 0, epsilon=(3.25, 9.5)),))
    assert [row["epsilon"] for row in privacy(arms([run(), told]))] == ["9.5", "∞: no noise"]


def test_what_else_differs_is_the_setting():
    found = arms([run(shards=25), run(shards=50), run(shards=25, data={"kind": "digits"})])
    assert [arm.setting for arm in found] == ["digits, shards 25", "mnist, shards 25", "mnist, shards 50"]


def test_an_epsilon_that_follows_from_the_shards_is_not_part_of_the_name():
    assert {arm.estimator for arm in arms([run(shards=25), run(shards=50)])} == {"FilterL2"}


def test_parameters_are_told_where_one_rule_occurs_with_several():
    found = arms(
        [run(estimator={"kind": "filter-l2", "sigma": 0.1}), run(estimator={"kind": "filter-l2", "sigma": 0.2})]
    )
    assert [arm.estimator for arm in found] == ["FilterL2 (sigma 0.1)", "FilterL2 (sigma 0.2)"]
    assert len({arm.look.color for arm in found}) == 1
    assert len({arm.look.dash for arm in found}) == 2


def test_a_rule_around_another_is_named_by_both():
    (arm,) = arms([run(estimator={"kind": "bulyan", "inner": {"kind": "krum"}})])
    assert arm.estimator == "Bulyan + Krum"


def test_the_author_s_own_label_is_kept():
    (arm,) = arms([run(arm={"attack": "the nasty one", "estimator": "filter-l2"})])
    assert (arm.attack, arm.estimator) == ("the nasty one", "FilterL2")


def test_a_kind_is_not_asked_for_settings_of_another_kind():
    schedules = ({"type": "fixed"}, {"type": "every-k-rounds", "k": 5}, {"type": "batches", "size": 2, "k": 1})
    found = arms([run(schedule=schedule) for schedule in schedules])
    assert sorted(arm.setting for arm in found) == ["batches, k 1, size 2", "every-k-rounds, k 5", "fixed"]


def test_an_older_header_without_settings_is_still_an_arm():
    (arm,) = arms([RecordedRun("old", header(settings={}), ())])
    assert (arm.attack, arm.estimator) == ("an attack", "unknown")


def test_every_estimator_and_attack_has_a_name():
    assert set(ESTIMATORS) == tags(AnyEstimator)
    assert set(ATTACKS) == tags(AnyAttack)


def test_every_estimator_has_a_look_of_its_own():
    looks = {name: look(name) for name in tags(AnyEstimator)}
    assert not [(a, b) for a, b in combinations(looks, 2) if looks[a] == looks[b]]


def test_the_look_of_an_unknown_estimator_depends_on_its_name_alone():
    assert look("my-own-rule") == look("my-own-rule")
    assert look("my-own-rule").dash in DASHES


def test_the_papers_two_bulyans_can_be_told_apart():
    assert look("bulyan + krum") != look("bulyan + trimmed-mean")


def test_no_two_rules_of_a_page_look_alike_and_plain_ones_look_as_everywhere():
    inner = [{"kind": "filter-l2"}, {"kind": "krum"}, {"kind": "trimmed-mean"}, {"kind": "median"}]
    rules = [{"kind": kind, "inner": rule} for kind in ("bulyan", "nnm", "bucketing") for rule in inner]
    found = arms([run(estimator=rule) for rule in (*rules, *inner, {"kind": "filter-l2", "sigma": 1.0})])
    assert len({arm.look for arm in found}) == len(rules) + len(inner) + 1
    plain = {arm.estimator_name: arm.look for arm in found if arm.estimator_name in {"krum", "median", "trimmed-mean"}}
    assert plain == {name: look(name) for name in plain}


def test_when_all_looks_are_taken_one_is_shared():
    every = {Look(color, dash) for color in COLOURS for dash in DASHES}
    assert apart(look("krum"), every) == look("krum")
    assert apart(look("krum"), every - {look("median")}) == look("median")


def test_the_verdict_tells_epsilon_and_whether_it_is_a_promise():
    noise = {"multiplier": 2.0, "delta": 1e-5}
    for told, wanted in ((3.25, "held"), ((12.5, 40.0), "note")):
        head = header(dp=noise)
        (remark,) = [
            each
            for each in remarks_on_privacy([run(), RecordedRun("noisy", head, (record(head, 0, epsilon=told),))])
            if each.about == "Differential privacy"
        ]
        assert remark.level == wanted
        assert remark.text.startswith(f"epsilon is at most {told if wanted == 'held' else 40} at delta 1e-05")
    assert all(each.about != "Differential privacy" for each in remarks_on_privacy([run()]))
