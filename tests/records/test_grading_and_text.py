"""Grades and thresholds are decided once, and worded once."""

import pytest

from f2ed.guarantees import guarantee
from f2ed.records import LeakForecast, LeakReading, RoundRecord, Seconds, grading, text
from tests.report.report_runs import deployed, deployed_record


@pytest.mark.parametrize(
    ("lost", "success", "wanted"),
    [
        (0.05, None, "held"),
        (0.06, None, "degraded"),
        (0.20, None, "broken"),
        (None, 0.20, "held"),
        (None, 0.49, "degraded"),
        (None, 0.50, "broken"),
        (0.0, 0.5, "broken"),
        (0.3, 0.0, "broken"),
        (None, None, "unknown"),
    ],
)
def test_the_worse_of_accuracy_and_success_is_the_grade(lost, success, wanted):
    assert grading.grade(lost, success) == wanted


def test_regions_are_those_of_the_guarantee():
    for malicious, wanted in ((2, "theorem"), (3, "experience"), (12, "experience"), (13, "nothing")):
        assert grading.region(malicious, 25) == wanted
        assert guarantee(clients=100, malicious=malicious, shards=25).region == wanted
    assert [grading.grade_region(name) for name in ("theorem", "experience", "nothing", "")] == [
        "held",
        "degraded",
        "broken",
        "unknown",
    ]


def test_epsilon_is_strong_up_to_1_and_meaningless_above_10():
    assert [grading.grade_dp(each) for each in (1.0, 1.1, 10.0, 10.1)] == ["strong", "moderate", "moderate", "weak"]
    assert text.dp(0.5, 1e-5) == "epsilon is at most 0.5 at delta 1e-05, a strong guarantee"
    assert text.dp(40) == "epsilon is at most 40, no meaningful guarantee"


def test_the_weight_on_contaminated_shards_is_averaged_over_the_last_five_rounds():
    rounds = [RoundRecord(round=n, weights=(n / 10, 1 - n / 10), contaminated=(0,)) for n in range(8)]
    assert grading.late_contaminated_weight(rounds) == pytest.approx(0.5)
    assert grading.late_contaminated_weight([RoundRecord(round=0, weights=(1.0,))]) is None


def test_a_guarantee_is_one_sentence_for_all_who_state_it():
    assert text.guarantee(1, 25, "theorem") == (
        "1 malicious client can contaminate up to 4% of 25 shards: below 1/12, where the theorem bounds their influence"
    )
    assert "only experience with known attacks" in text.guarantee(10, 25, "experience")
    assert text.crowd(1) == "no update is hidden from the server"


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        (None, "never resharded"),
        ({"type": "fixed"}, "never resharded"),
        ({"type": "every-round"}, "resharded every round"),
        ({"type": "every-k-rounds", "k": 5}, "resharded every 5 rounds"),
        ({"type": "batches", "size": 2, "k": 1}, "groups of 2, resharded every round"),
    ],
)
def test_a_schedule_in_words(schedule, wanted):
    assert text.schedule({"schedule": schedule}) == wanted


def test_a_leak_names_who_is_exposed_and_when():
    some = LeakForecast(exposed=3, first=4, last=None, crowd=1, cosine=0.9, leaks=True)
    assert "determine 3 of 12 clients individually, the first after 4 rounds;" in text.leak(some, rounds=9, clients=12)
    reading = LeakReading(rank=12, exposed=12, first=4, crowd=1)
    assert (
        text.leak_reading(reading, 12) == "the sums of all rounds determine 12 of 12 clients, the first after 4 rounds"
    )


def test_the_line_of_a_round_names_what_an_operator_must_know():
    head = deployed(shards=25, malicious=2)
    weights = (0.0,) + (1 / 24,) * 24
    quiet = text.round_line(deployed_record(head, 1, weights=weights, seconds=Seconds(exchange=2.0)), head)
    assert quiet == (
        "round 1: the model moved; 25 of 25 shards opened; crowd of at least 4; against 2 malicious: theorem; "
        "rejected: shard 0; 2.0 s"
    )
    loud = deployed_record(
        head,
        2,
        skipped="too few shards",
        weights=None,
        excluded={3: "closed"},
        dropped={7: "timed out"},
        dp_epsilon={7: 1.25},
        leak=LeakReading(rank=9, exposed=2, first=1, crowd=1),
    )
    said = text.round_line(loud, head)
    assert "SKIPPED, the model stays as it is: too few shards; 24 of 25 shards opened" in said
    assert "ALL ROUNDS TOGETHER REVEAL 2 OF 100 CLIENTS" in said
    assert "epsilon at most 1.25" in said
    assert "1 dropped (client 7: timed out)" in said
