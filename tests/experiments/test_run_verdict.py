"""What came of a grid, said in sentences."""

import pytest

from f2ed.experiments import summarise
from f2ed.records import RoundRecord, RunHeader, RunLog, Seconds


def run(attack, estimator, accuracy, success=None, *, arm=None, **changes):
    settings = {"attack": None if attack == "none" else {"kind": attack}, "estimator": {"kind": estimator}, "seed": 0}
    header = RunHeader(
        **{
            "name": f"{attack}, {estimator}",
            "digest": "d",
            "settings": settings,
            "seed": 0,
            "rounds": 2,
            "versions": {"f2ed": "1"},
            "device": "cpu",
            "dimension": 5,
            "clients": 12,
            "malicious": (1,),
            "attacked": attack != "none",
            "samples": (),
            "labels": (),
            "shards": ((0, 1, 2),) * 4,
            "mode": "all-or-nothing",
            "hidden_among": 3,
            "guarantee": {},
            "verdict": "1 malicious client can spoil 25% of 4 rows",
            "arm": {"attack": attack, "estimator": estimator} if arm is None else arm,
        }
        | {key: value for key, value in changes.items() if key in RunHeader.__struct_fields__}
    )
    rest = {key: value for key, value in changes.items() if key in RoundRecord.__struct_fields__}
    rounds = [
        RoundRecord(
            **{
                "round": number,
                "accuracy": accuracy - 0.1 * (1 - number),
                "loss": 1.0,
                "success": success,
                "weights": (0.1, 0.3, 0.3, 0.3),
                "contaminated": (0,) if attack != "none" else (),
                "guarantee": "experience",
                "seconds": Seconds(train=1.0),
            }
            | rest
        )
        for number in range(2)
    ]
    return RunLog(header, tuple(rounds))


GRID = [
    run("none", "mean", 0.95),
    run("none", "filter-l2", 0.94),
    run("tma", "mean", 0.70),
    run("tma", "filter-l2", 0.935),
    run("mra", "mean", 0.95, 0.99),
    run("mra", "filter-l2", 0.94, 0.004),
]


def test_averaging_is_set_against_the_robust_rule_attack_by_attack():
    said = summarise(GRID).verdict
    assert said[0] == "Without an attack filter-l2 reaches 94.0 % and plain averaging 95.0 %."
    assert said[1] == (
        "Under tma plain averaging falls to 70.0 %; filter-l2 ends at 93.5 %, 23.5 points higher, "
        "0.5 points of accuracy below its run without an attack."
    )
    assert said[2] == (
        "Under mra plain averaging is fooled on 99.0 % of the attacker's images, filter-l2 on 0.4 %, "
        "with no accuracy lost to the attack."
    )


def test_outcomes_say_what_was_lost_and_believed():
    outcome = summarise(GRID).outcomes[2]
    assert outcome.below == pytest.approx(25.0)
    assert outcome.attackers_believed == pytest.approx(0.1)
    assert outcome.seconds == 1.0
    assert summarise(GRID).outcomes[0].below is None


def test_runs_alone_are_described_alone():
    assert summarise([run("tma", "median", 0.7, arm={})]).verdict[0] == "Under tma median ends at 70.0 %."
    assert summarise([run("none", "mean", 0.7, arm={})]).verdict[0] == "Without an attack mean reaches 70.0 %."


def test_labels_of_words_get_an_article():
    said = summarise([run("tma", "median", 0.7, arm={"attack": "accuracy attack"})]).verdict
    assert said[0].startswith("Under the accuracy attack median")


def test_other_axes_are_named():
    runs = [
        run(attack, rule, 0.9, arm={"attack": attack, "estimator": rule, "seed": "3"})
        for attack in ("none", "tma")
        for rule in ("mean", "median")
    ]
    assert all(sentence.endswith("(seed 3)") for sentence in summarise(runs).verdict[:2])


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"guarantee": "experience"}, "experience, not a theorem"),
        ({"guarantee": "nothing"}, "no rule can help"),
        ({"clipped_honest": 3}, "raise clip"),
        ({"excluded": {1: "closed"}}, "some shards had no say"),
        ({"hidden_among": 4}, "only sums of at least 4 clients"),
    ],
)
def test_what_a_reader_should_know_is_remarked(changes, remark):
    assert any(remark in sentence for sentence in summarise([run("tma", "median", 0.7, **changes)]).verdict)


def test_a_run_without_rounds_is_left_out():
    empty = RunLog(GRID[0].header, ())
    assert summarise([empty]).outcomes == ()
