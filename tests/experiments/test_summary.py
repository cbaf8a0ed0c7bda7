"""The summary of a grid, in sentences."""

import pytest

from f2ed.experiments import summarize
from f2ed.records import Plugin, RoundRecord, RunHeader, RunLog, Seconds


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
            "estimator": Plugin(kind=estimator, title=estimator),
            "attack": None if attack == "none" else Plugin(kind=attack, title=attack),
            "shards": ((0, 1, 2),) * 4,
            "mode": "all-or-nothing",
            "crowd": 3,
            "guarantee": {},
            "arm": {"attack": attack, "estimator": estimator} if arm is None else arm,
        }
        | {key: value for key, value in changes.items() if key in RunHeader.__struct_fields__}
    )
    rest = {key: value for key, value in changes.items() if key in RoundRecord.__struct_fields__ and key != "guarantee"}
    rounds = [
        RoundRecord(
            **{
                "round": number,
                "accuracy": accuracy - 0.1 * (1 - number),
                "loss": 1.0,
                "success": success,
                "weights": (0.1, 0.3, 0.3, 0.3),
                "contaminated": (0,) if attack != "none" else (),
                "seconds": Seconds(train=1.0),
            }
            | rest
        )
        for number in range(2)
    ]
    return RunLog(header, tuple(rounds))


def stated(region):
    return {"malicious": 1, "shards": 4, "region": region}


GRID = [
    run("none", "mean", 0.95),
    run("none", "filter-l2", 0.94),
    run("trimmed-mean-attack", "mean", 0.70),
    run("trimmed-mean-attack", "filter-l2", 0.935),
    run("model-replacement", "mean", 0.95, 0.99),
    run("model-replacement", "filter-l2", 0.94, 0.004),
]


def test_averaging_is_set_against_the_robust_rule_attack_by_attack():
    said = summarize(GRID).verdict
    assert said[0] == "Without an attack filter-l2 reaches 94% and plain averaging 95%."
    assert said[1] == (
        "Under trimmed-mean-attack, filter-l2: accuracy 93.5%, 0.5 points lower than without the attack. "
        "Plain averaging: accuracy 70%, 25 points lower than without the attack."
    )
    assert said[2] == (
        "Under model-replacement, filter-l2: accuracy 94%, the same as without the attack; the attack succeeds on 0.4% "
        "of inputs. "
        "Plain averaging: accuracy 95%, the same as without the attack; the attack succeeds on 99% of inputs."
    )


def test_results_state_the_loss_and_the_weight_on_contaminated_shards():
    result = summarize(GRID).results[2]
    assert result.lost == pytest.approx(25.0)
    assert result.contaminated_weight == pytest.approx(0.1)
    assert result.seconds == 1.0
    assert summarize(GRID).results[0].lost is None


def test_runs_alone_are_described_alone():
    attacked, calm = (
        summarize([run(attack, "median", 0.7, arm={})]).verdict[0] for attack in ("trimmed-mean-attack", "none")
    )
    assert attacked == "Under trimmed-mean-attack, median: accuracy 70%, with no attack-free run to compare with."
    assert calm == "Without an attack median reaches 70%."


def test_labels_of_words_get_an_article():
    said = summarize([run("trimmed-mean-attack", "median", 0.7, arm={"attack": "accuracy attack"})]).verdict
    assert said[0].startswith("Under the accuracy attack, median")


def test_other_axes_are_named():
    runs = [
        run(attack, rule, 0.9, arm={"attack": attack, "estimator": rule, "seed": "3"})
        for attack in ("none", "trimmed-mean-attack")
        for rule in ("mean", "median")
    ]
    assert all(sentence.endswith("(seed 3)") for sentence in summarize(runs).verdict[:2])


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        (
            {"guarantee": stated("experience")},
            "Guarantee: none. 1 malicious client can contaminate up to 25% of 4 shards",
        ),
        ({"guarantee": stated("nothing")}, "no estimator can tell which rows are honest"),
        ({"clipped_honest": 3}, "Clipping: honest updates were clipped: raise clip_value"),
        ({"excluded": {1: "closed"}}, "Excluded: in 2 of 2 rounds some rows did not take part"),
        ({"crowd": 4}, "Privacy: every update is hidden in a crowd of at least 4 clients."),
        ({"rounds": 5}, "Not finished: 0 of 1 run has reached"),
    ],
)
def test_what_a_reader_should_know_is_stated(changes, finding):
    assert any(
        finding in sentence for sentence in summarize([run("trimmed-mean-attack", "median", 0.7, **changes)]).verdict
    )


ATTACKED = [("none", 0.9), ("trimmed-mean-attack", 0.2)]


def test_a_theorem_that_did_not_help_is_called_broken():
    said = [run(attack, "filter-l2", reached, guarantee=stated("theorem")) for attack, reached in ATTACKED]
    assert any(
        "FilterL2 was broken nevertheless by trimmed-mean-attack" in sentence for sentence in summarize(said).verdict
    )


def test_a_run_without_rounds_is_left_out():
    empty = RunLog(GRID[0].header, ())
    assert summarize([empty]).results == ()


def test_plugins_of_your_own_are_called_by_their_names():
    own = {
        "attack": {"kind": "imported", "factory": "mine:Push", "settings": {}},
        "estimator": {"kind": "imported", "factory": "mine:Middle", "settings": {}},
    }
    found = summarize([run("push", "middle", 0.8, arm={}, settings=own)])
    assert found.verdict[0].startswith("Under Push, Middle: ")
