import pytest

from f2ed.audit import Finding
from f2ed.audit.audit import AuditSettings, Picture, audit
from f2ed.audit.findings import Interval, RankHistory
from f2ed.audit.summary import as_record, conclusions, markdown
from f2ed.guarantees.leakage.forecast import ScheduleLeak

QUICK = AuditSettings(sizes=(1, 4), hidden=128, trials=2, iterations=20, clients=24, rounds=10, client_dropout=0.1)


@pytest.fixture(scope="module")
def found(digits):
    return list(audit(digits, QUICK))


@pytest.fixture(scope="module")
def findings(found):
    return [each for each in found if isinstance(each, Finding)]


def value(findings, attack, metric, setting, shard=4, rounds=1):
    (only,) = [
        one
        for one in findings
        if (one.attack, one.metric, one.setting, one.shard, one.rounds) == (attack, metric, setting, shard, rounds)
    ]
    return only


def test_every_attack_is_played(findings):
    assert {one.attack for one in findings} == {
        "inversion",
        "optimization",
        "labels",
        "membership",
        "disaggregation",
        "inconsistency",
    }


def test_every_number_lies_in_its_interval(findings):
    for one in findings:
        assert one.found.low <= one.found.value + 1e-12, one
        assert one.found.value <= one.found.high + 1e-12, one
        assert one.found.count >= 2


def test_every_number_has_both_baselines(findings):
    assert [one for one in findings if one.guess is None or one.plain is None] == []


def test_the_ranks_of_every_round_are_there_and_grow_as_the_meter_says(found):
    histories = {each.setting: each for each in found if isinstance(each, RankHistory)}
    assert histories["fixed"].ranks == (6,) * 10
    assert histories["every-round"].ranks[:4] == (6, 11, 16, 21)
    assert histories["every-round"].exposed[-1] == 24
    assert set(histories["batches of 2"].exposed) == {0}


def test_a_shard_of_one_is_always_audited(digits):
    few = AuditSettings(sizes=(3,), hidden=32, trials=1, iterations=0, clients=8, rounds=2, client_dropout=0.0)
    sizes = {one.shard for one in audit(digits, few) if isinstance(one, Finding) and one.attack == "inversion"}
    assert sizes == {1, 3}


def test_a_shard_of_four_does_not_hide_images_behind_a_dense_layer(findings):
    found = value(findings, "inversion", "share recovered", "untrained dense model")
    assert found.found.value == 1
    assert (found.guess, found.plain) == (0, 1)


def test_schedules_differ_as_the_meter_predicts(findings):
    for setting in ("every-round", "fixed", "batches of 2"):
        measured = value(findings, "disaggregation", "cosine", setting, rounds=10).found.value
        meter = value(findings, "disaggregation", "cosine predicted by the meter", setting, rounds=10).found.value
        assert measured == pytest.approx(meter, abs=0.09)
    assert value(findings, "disaggregation", "cosine", "every-round", rounds=10).found.value > 0.9
    assert value(findings, "disaggregation", "cosine", "fixed", rounds=10).found.value < 0.55


def test_the_same_seed_gives_the_same_findings(digits, findings):
    again = [one for one in audit(digits, QUICK) if isinstance(one, Finding)]
    assert [one.found for one in again if one.attack == "inversion"] == [
        one.found for one in findings if one.attack == "inversion"
    ]


def test_there_are_pictures_for_every_size(found):
    names = {each.name for each in found if isinstance(each, Picture)}
    assert {"inversion_untrained_1", "inversion_untrained_4", "optimization_1", "optimization_4"} <= names


def test_the_page_has_conclusions_tables_the_meter_and_pictures(found, findings):
    leaks = [each for each in found if isinstance(each, ScheduleLeak)]
    histories = [each for each in found if isinstance(each, RankHistory)]
    page = markdown("A title", findings, leaks, [("a.png", "a shard of four")], histories, ["Privacy: as it was."])
    assert "| every-round | 6 | 11 | 16 | 21 |" in page
    assert "- Privacy: as it was." in page
    assert "The meter predicts" in page
    assert page.startswith("# A title\n")
    assert "100 % at 1, 100 % at 4" in page
    assert "opens only noise: masks are bound to the model" in page
    assert "| every-round | none | 24 of 24 |" in page
    assert "![a shard of four](a.png)" in page


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Interval(80.0, 79.0, 80.0, 5), "the binding of masks to the model has failed"),
        (Interval(11.7, 11.7, 11.7, 1), "opens only noise: masks are bound to the model"),
    ],
)
def test_the_conclusions_say_whether_the_binding_holds(found, said):
    finding = Finding(
        attack="inconsistency",
        metric="PSNR of the victim, dB",
        shard=4,
        setting="masks bound to the model",
        found=found,
        guess=10.0,
    )
    assert said in conclusions([finding])[0]


def test_a_finding_becomes_one_flat_line_of_a_run(findings):
    line = as_record(findings[0])
    assert line["record"] == "audit"
    assert not any(isinstance(part, dict | list) for part in line.values())


def test_the_headline_quotes_the_trained_model_first_and_calls_the_untrained_one_the_worst_case():
    from f2ed.audit.findings import Finding, Interval
    from f2ed.audit.summary import conclusions

    def found(name, share):
        interval = Interval(share, 0, 1, 9)
        return Finding(
            attack="inversion", metric="share recovered", shard=4, setting=f"{name} dense model", found=interval
        )

    (sentence,) = conclusions([found("untrained", 1.0), found("trained", 0.25)])
    assert sentence.endswith("by shard size, trained: 25 % at 4; untrained, which is the worst case: 100 % at 4.")
    (sentence,) = conclusions([found("untrained", 1.0)])
    assert sentence.endswith("by shard size, untrained, which is the worst case: 100 % at 4.")
