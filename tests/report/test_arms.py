"""Which runs belong together, and how they look."""

from typing import get_args

from f2ed.attacks import AnyAttack
from f2ed.estimators import AnyEstimator
from f2ed.records import NoiseRecord, Plugin
from f2ed.records.findings import privacy as privacy_findings
from f2ed.records.intake import RecordedRun
from f2ed.report.arms import arms
from f2ed.report.colors import COLORS, DASHES, Look, assign_looks
from f2ed.report.privacy import privacy
from tests.report.report_runs import header, record


def run(**settings):
    head = header(**settings)
    return RecordedRun(head.name, head, (record(head, 0),))


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
    told = RecordedRun("noisy", noisy, (record(noisy, 0, dp_epsilon={0: 3.25, 7: 9.5}),))
    assert [row["dp_epsilon"] for row in privacy(arms([run(), told]))] == ["9.5", "∞: no noise"]


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


def test_a_deployment_does_not_claim_that_nobody_attacks():
    (arm,) = arms([run(attack="none", source="deployment")])
    assert (arm.attack, arm.attacked) == ("deployment", False)


def plugin(kind, family="", inner=None):
    return Plugin(kind=kind, title=kind, family=family, inner=inner)


def test_every_registered_plugin_brings_its_title_family_and_paper():
    for kind in (*get_args(AnyEstimator), *get_args(AnyAttack)):
        assert kind.title
        assert kind.family
        assert kind.paper


def test_the_first_of_each_family_has_the_family_s_color_and_no_two_look_alike():
    rules = {
        kind.__struct_config__.tag: plugin(kind.__struct_config__.tag, kind.family) for kind in get_args(AnyEstimator)
    }
    looks = assign_looks(rules)
    assert len(set(looks.values())) == len(rules)
    families = {rule.family for rule in rules.values()}
    first = {family: min(name for name, rule in rules.items() if rule.family == family) for family in families}
    assert len({looks[name].color for name in first.values()}) == len(families)
    assert {looks[name].dash for name in first.values()} == {"solid"}


def test_few_estimators_have_colors_of_their_own_even_within_a_family():
    looks = assign_looks({name: plugin(name, "distance-based") for name in ("krum", "bulyan", "multi-krum")})
    assert len({look.color for look in looks.values()}) == 3


def test_the_papers_two_bulyans_can_be_told_apart():
    bulyans = {inner: plugin("bulyan", "distance-based", plugin(inner)) for inner in ("krum", "trimmed-mean")}
    assert len(set(assign_looks(bulyans).values())) == 2


def test_when_all_looks_are_taken_one_is_shared():
    looks = assign_looks({str(number): plugin(str(number)) for number in range(40)})
    assert set(looks.values()) == {Look(color, dash) for color in COLORS for dash in DASHES}


def test_the_verdict_states_epsilon_and_whether_it_is_meaningful():
    noise = NoiseRecord(noise_multiplier=2.0, delta=1e-5, clip_norm=1.0, shard=0.1, shard_norm=2.0)
    for told, wanted in ((3.25, "held"), ({0: 12.5, 1: 40.0}, "note")):
        head = header(noise=noise)
        (finding,) = [
            each
            for each in privacy_findings([run(), RecordedRun("noisy", head, (record(head, 0, dp_epsilon=told),))])
            if each.about == "Differential privacy"
        ]
        assert finding.level == wanted
        assert finding.text.startswith(f"epsilon is at most {told if wanted == 'held' else 40} at delta 1e-05")
    assert all(each.about != "Differential privacy" for each in privacy_findings([run()]))
