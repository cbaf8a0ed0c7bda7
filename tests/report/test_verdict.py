"""The verdict is computed from the records; change the records, and it changes."""

import pytest

from f2ed.records import LeakReading
from f2ed.records.intake import RecordedRun
from f2ed.report.arms import arms
from f2ed.report.verdict import grade_arm, page_verdict
from tests.report.report_runs import deployed, deployed_record, header, record


def run(accuracy=0.9, *, rounds=3, more=None, **settings):
    """Return a run that ends at an accuracy."""
    head = header(rounds=3, **settings)
    numbers = [record(head, number, accuracy=accuracy, success=None, **(more or {})) for number in range(rounds)]
    return RecordedRun(f"{head.name}-{settings}", head, tuple(numbers))


def level(*runs):
    every = arms(runs)
    (found,) = [grade_arm(arm, every) for arm in every if arm.attacked]
    return found.level


def points(found, about):
    return [point for point in found.points if point.about == about]


@pytest.mark.parametrize(
    ("accuracy", "wanted"), [(0.9, "held"), (0.86, "held"), (0.84, "degraded"), (0.71, "degraded"), (0.69, "broken")]
)
def test_an_attack_is_graded_by_the_accuracy_it_costs(accuracy, wanted):
    assert level(run(0.9, attack="none"), run(accuracy, attack="krum-attack")) == wanted


@pytest.mark.parametrize(("success", "wanted"), [(0.1, "held"), (0.3, "degraded"), (0.5, "broken")])
def test_a_targeted_attack_is_graded_by_its_success(success, wanted):
    head = header(attack="dba", rounds=3)
    hit = RecordedRun("hit", head, tuple(record(head, number, accuracy=0.9, success=success) for number in range(3)))
    assert level(run(0.9, attack="none"), hit) == wanted


def test_the_worse_of_the_two_counts():
    head = header(attack="dba", rounds=3)
    hit = RecordedRun("hit", head, (record(head, 2, accuracy=0.5, success=0.0),))
    assert level(run(0.9, attack="none"), hit) == "broken"


def test_without_a_run_that_nobody_attacked_accuracy_is_not_graded():
    found = page_verdict(arms([run(0.2, attack="krum-attack")]))
    assert found.level == "unknown"
    assert "no run without an attack" in found.headline


def test_a_baseline_of_other_settings_does_not_count():
    assert level(run(0.9, attack="none", data={"kind": "digits"}), run(0.9, attack="krum-attack")) == "unknown"


def test_a_run_under_way_is_measured_by_where_the_other_was_by_then():
    head = header(attack="none", rounds=3)
    calm = RecordedRun("calm", head, tuple(record(head, n, accuracy=a) for n, a in enumerate((0.3, 0.6, 0.9))))
    assert level(calm, run(0.3, rounds=1, attack="krum-attack")) == "held"


def test_the_mean_over_seeds_is_graded():
    seeds = [run(accuracy, attack="krum-attack", seed=seed) for seed, accuracy in enumerate((0.9, 0.5))]
    assert level(run(0.9, attack="none"), *seeds) == "broken"


def test_the_headline_names_who_held_and_who_was_broken():
    every = [run(0.9, attack="none", estimator=name) for name in ("mean", "filter-l2")]
    every += [run(0.9, attack="krum-attack"), run(0.9, attack="trimmed-mean-attack")]
    every += [
        run(0.2, attack="krum-attack", estimator="mean"),
        run(0.9, attack="trimmed-mean-attack", estimator="mean"),
    ]
    found = page_verdict(arms(every))
    assert found.level == "held"
    assert found.headline == "FilterL2 held against both attacks; Mean was broken."
    (mean,) = points(found, "Mean")
    assert mean.level == "broken"
    assert "held against 1 of 2 attacks, broken by 1. Worst case, Krum attack: accuracy 20%" in mean.text


def test_who_met_fewer_attacks_is_not_praised_for_all_of_them():
    every = [run(0.9, attack="none", estimator=name) for name in ("krum", "filter-l2")]
    every += [
        run(0.9, attack="krum-attack"),
        run(0.9, attack="trimmed-mean-attack"),
        run(0.9, attack="krum-attack", estimator="krum"),
    ]
    assert page_verdict(arms(every)).headline == "FilterL2 held against both attacks."


def test_a_baseline_of_another_rule_is_called_by_its_name():
    found = page_verdict(arms([run(0.9, attack="none"), run(0.5, attack="krum-attack", estimator="mean")]))
    (mean,) = points(found, "Mean")
    assert "40 points lower than FilterL2 without the attack" in mean.text


def test_if_nothing_held_the_headline_says_so():
    found = page_verdict(arms([run(0.9, attack="none"), run(0.1, attack="krum-attack")]))
    assert found.level == "broken"
    assert found.headline == "Every estimator was broken by some attack: FilterL2."


def test_without_an_attack_there_is_nothing_to_grade():
    assert page_verdict(arms([run(0.9, attack="none")])).headline == "Nobody attacked. The best accuracy is 90%."
    assert page_verdict([]).headline == "There is no run to show yet."


def guarantee_of(*runs):
    (point,) = points(page_verdict(arms(runs)), "Guarantee")
    return point


def test_the_theorem_is_named_where_it_applies_and_was_not_broken():
    point = guarantee_of(run(0.9, attack="none", malicious=2), run(0.9, attack="krum-attack", malicious=2))
    assert point.level == "held"
    assert point.text.startswith("the theorem.")
    assert "below 1/12" in point.text


def test_a_theorem_that_did_not_help_is_called_broken():
    point = guarantee_of(run(0.9, attack="none", malicious=2), run(0.2, attack="krum-attack", malicious=2))
    assert point.level == "broken"
    assert "FilterL2 was broken nevertheless by Krum attack" in point.text


def test_rounds_with_a_weaker_guarantee_are_counted():
    closed = run(0.9, attack="krum-attack", malicious=2, more={"guarantee": "experience"})
    point = guarantee_of(run(0.9, attack="none", malicious=2), closed)
    assert point.level == "degraded"
    assert "In 3 of 3 rounds" in point.text


def test_the_theorem_is_not_claimed_for_other_rules():
    runs = [run(0.9, attack=attack, malicious=2, estimator="krum") for attack in ("none", "krum-attack")]
    assert "the other estimators have no such theorem" in guarantee_of(*runs).text


def test_more_attackers_than_the_theorem_covers_are_experience():
    point = guarantee_of(run(attack="none"), run(attack="krum-attack"))
    assert point.level == "degraded"
    assert point.text.startswith("none. 10 malicious clients can contaminate up to 40% of 25 shards")
    assert guarantee_of(run(malicious=13, attack="none"), run(malicious=13, attack="krum-attack")).level == "broken"


def test_the_crowd_is_the_smallest_of_all_runs():
    (point,) = points(page_verdict(arms([run(attack="none"), run(attack="none", shards=10)])), "Privacy")
    assert point.text == "every update is hidden in a crowd of at least 4 clients."


def test_a_crowd_that_shrank_in_one_round_is_what_counts():
    (point,) = points(page_verdict(arms([run(attack="none", more={"crowd": 3})])), "Privacy")
    assert point.text == "every update is hidden in a crowd of at least 3 clients."
    (point,) = points(page_verdict(arms([run(attack="none", more={"crowd": 1})])), "Privacy")
    assert point.level == "broken"


def test_updates_that_nobody_hid_are_called_by_name():
    seen = page_verdict(arms([run(attack="none", mode="none", crowd=1)]))
    assert [point.level for point in points(seen, "Privacy")] == ["broken"]
    clear = page_verdict(arms([run(attack="none", mode="clear", crowd=1)]))
    assert [point.level for point in points(clear, "Privacy")] == ["note"]


def test_resharding_is_a_weakness_where_no_leak_was_measured():
    found = page_verdict(arms([run(attack="none", schedule={"type": "every-round"})]))
    (point,) = points(found, "Over the rounds")
    assert point.level == "degraded"
    assert point.text.startswith("1 run reassigned clients to shards")


def test_what_the_meter_read_last_counts():
    safe = run(attack="none", more={"leak": LeakReading(rank=25, exposed=0, first=None, crowd=4)})
    (point,) = points(page_verdict(arms([safe])), "Over the rounds")
    assert (point.level, "no group smaller than 4." in point.text) == ("held", True)
    read = LeakReading(rank=100, exposed=98, first=5, crowd=1)
    leaky = run(attack="krum-attack", more={"leak": read}, schedule={"type": "every-round"})
    (point,) = points(page_verdict(arms([safe, leaky])), "Over the rounds")
    assert point.level == "broken"
    assert "determine 98 of 100 clients, the first after 5 rounds in 1 of 2 runs." in point.text


def test_runs_that_have_not_ended_are_counted():
    (point,) = points(page_verdict(arms([run(attack="none", rounds=1), run(attack="krum-attack")])), "Not finished")
    assert point.text.startswith("1 of 2 runs have reached")


def deployment(**more):
    head = deployed(rounds=3)
    return RecordedRun("live", head, tuple(deployed_record(head, n, **more) for n in range(3)), seen=3)


def test_a_deployment_is_summed_up_without_claiming_that_nobody_attacked():
    found = page_verdict(arms([deployment()]))
    assert (found.level, found.headline) == ("unknown", "Deployment: 3 rounds, none skipped.")
    assert {point.about for point in found.points} >= {"Guarantee", "Privacy"}
    assert "attacked" not in found.headline


def test_skipped_rounds_of_a_deployment_are_counted_with_the_last_reason():
    found = page_verdict(arms([deployment(skipped="only 2 of 4 shards opened")]))
    assert found.headline == "Deployment: 3 rounds, 3 skipped."
    (point,) = points(found, "Skipped rounds")
    assert point.level == "degraded"
    assert point.text == "3 of 3 rounds left the model as it was: only 2 of 4 shards opened."


def test_a_run_that_diverged_is_the_first_thing_said():
    reason = "3 of 3 members sent nothing: an update with 10 coordinates that are NaN or infinite"
    more = {"skipped": "nothing was opened", "excluded": {0: reason}, "step": 0.0}
    verdict = page_verdict(arms([run(attack="none", more=more, training={"lr": 1e30})]))
    assert verdict.level == "broken"
    assert "did not move in 3 of 3 rounds" in verdict.headline
    assert "learning rate (lr = 1e+30) is most likely too large" in verdict.headline


def test_rounds_that_opened_nothing_are_named_without_blaming_the_learning_rate():
    verdict = page_verdict(arms([run(attack="none", more={"skipped": "nothing was opened"})]))
    assert verdict.headline.endswith("nothing was opened. The rest says nothing.")
    assert "learning rate" not in verdict.headline
