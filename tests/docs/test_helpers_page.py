"""The table of the helpers page is what the records say."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from f2ed.estimators import FilterL2, Resilience
from f2ed.experiments.reproduction.helpers import helpers_by_rule
from f2ed.experiments.reproduction.searched import searched, searched_table
from f2ed.guarantees import recommended_rule
from f2ed.protocol.helpers import HelpersProtocol
from f2ed.records import read_all

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "helpers.md").read_text(encoding="utf-8")
ATTACKS = ("none", "TMA", "Min-Max", "Oracle", "MRA (as trained)")


def cells():
    """Return accuracy or success in percent, and the smallest crowd, by setting and attack, over the seeds."""
    found = defaultdict(list)
    for log in read_all(ROOT / "results" / "helpers.jsonl.xz"):
        arm, last = log.header.arm, log.rounds[-1]
        measured = last.accuracy if last.success is None else last.success
        crowd = min(record.crowd for record in log.rounds)
        found[arm.get("protocol", "25 shards"), arm["attack"]].append((log.header.seed, 100 * measured, crowd))
    return {key: sorted(several) for key, several in found.items()}


def row(setting, found):
    parts = [" / ".join(f"{value:.0f}" for _, value, _ in found[setting, attack]) for attack in ATTACKS]
    crowd = 4 if setting == "25 shards" else min(found[setting, attack][i][2] for attack in ATTACKS for i in range(3))
    return f"| {setting} | {crowd} | {' | '.join(parts)} |"


def test_the_table_is_what_was_run():
    found = cells()
    assert all(len(several) == 3 for several in found.values())
    for setting in ("25 shards", "helpers, groups of 4", "helpers, nested sets"):
        assert row(setting, found) in PAGE


AUDITS = [
    json.loads((ROOT / "docs" / "figures" / f"audit_helpers_{seed}.json").read_text(encoding="utf-8"))["findings"]
    for seed in range(3)
]


def audited(target, start, model, metric, rounds=1):
    """Return what a coalition found with each of the three seeds."""
    return [
        next(
            one["found"]["value"]
            for one in findings
            if (one["target"], one["model"], one["metric"], one["rounds"]) == (target, model, metric, rounds)
            and one["coalition"].startswith(start)
        )
        for findings in AUDITS
    ]


@pytest.mark.parametrize(
    ("label", "start"),
    [
        ("server, means of shards of 4 instead of helpers", "S, shards of 4"),
        ("the same with the clip of helpers", "S, clipped shards of 4"),
        ("server, the sum that helpers open", "S, mean of"),
        ("server, the sum if the clip is the longest update", "S, clip at the longest update, mean of"),
        ("server + 10 clients", "S + 10"),
        ("server + 50 clients", "S + 50"),
        ("server or mixer, a masked row", "M, masked"),
        ("judge + 10 clients, own updates", "J + 10 clients, own updates, K"),
        ("judge + 10 clients that probe", "J + 10 clients, probing, K"),
        ("judge + 50 clients that probe", "J + 50 clients, probing, K"),
        ("judge + 10 clients that probe, if there were no sketch", "J + 10 clients, probing, exact"),
        ("judge + 50 clients that probe, if there were no sketch", "J + 50 clients, probing, exact"),
        ("mixer + judge", "M + J"),
        ("server + mixer, or server + judge", "S + M or"),
    ],
)
def test_the_images_recovered_are_what_the_audit_found(label, start):
    shares = [audited("images", start, model, "share recovered") for model in ("untrained", "trained")]
    shown = " | ".join(" / ".join(f"{100 * share:.0f}" for share in some) for some in shares)
    assert f"| {label} | {shown} |" in PAGE


@pytest.mark.parametrize(
    ("label", "target", "start", "metric"),
    [
        ("labels: server, shards of 4, %", "labels", "S, shards", "share found"),
        ("labels: server, the sum, %", "labels", "S, mean", "share found"),
        (
            "labels: judge + 10 clients, of each client by name, %",
            "labels",
            "J + 10 clients, probing the",
            "share found",
        ),
        ("membership: server, shards of 4, AUC", "membership", "S, shards", "AUC"),
        ("membership: server, the sum, AUC", "membership", "S, mean", "AUC"),
        ("membership: judge + 10 clients, of each client by name, AUC", "membership", "J + 10", "AUC"),
    ],
)
def test_labels_and_membership_are_what_the_audit_found(label, target, start, metric):
    found = [audited(target, start, model, metric) for model in ("untrained", "trained")]
    shown = [[f"{each:.2f}" if metric == "AUC" else f"{100 * each:.0f}" for each in some] for some in found]
    assert f"| {label} | {' | '.join(' / '.join(some) for some in shown)} |" in PAGE


def test_the_malicious_model_and_the_chances_are_what_the_audit_found():
    shards, summed = (audited("malicious model", start, "malicious", "share recovered") for start in ("S, sh", "S, m"))
    both = [" / ".join(f"{100 * each:.0f}" for each in some) for some in (shards, summed)]
    assert f"{both[0]} % from shards of 4, {both[1]} % from the sum of helpers" in PAGE
    by_chance = "share recovered by chance"
    for start, said in (("S, mean", "0 / 0 / 0.8 %"), ("S, clip at", "0.8 / 0 / 0 %")):
        found = audited("images", start, "trained", by_chance)
        assert " / ".join(f"{100 * each:.1f}".replace("0.0", "0") for each in found) + " %" == said
        assert said in PAGE


def test_ten_images_per_client_are_as_the_audit_found_them():
    found = json.loads((ROOT / "docs" / "figures" / "audit_helpers_ten.json").read_text(encoding="utf-8"))
    assert found["settings"]["batch_size"] == 10

    def both(target, start, metric, models=("untrained", "trained")):
        return [
            one["found"]["value"]
            for model in models
            for one in found["findings"]
            if (one["target"], one["model"], one["metric"]) == (target, model, metric)
            and one["coalition"].startswith(start)
        ]

    assert max(both("images", "J + 50 clients, probing, K", "share recovered")) < 0.005
    shards = [round(100 * each) for each in both("images", "S, shards", "share recovered")]
    assert f"{shards[0]} % (untrained) and {shards[1]} %" in PAGE
    named, summed = ([f"{each:.2f}" for each in both("membership", who, "AUC")] for who in ("J + 10", "S, mean"))
    assert f"membership by name is {' and '.join(named)}, and in the sum {' and '.join(summed)}." in PAGE
    read = [f"{100 * each:.0f}" for each in both("malicious model", "S,", "share recovered", ("malicious",))]
    assert f"with ten images each {' and '.join(read)} %" in PAGE


@pytest.mark.parametrize(("label", "start"), [("fixed groups of 4", "S, fixed"), ("nested sets, by 4", "S, nested")])
def test_the_cosines_over_rounds_are_what_the_audit_found(label, start):
    cosines = [audited("rounds", start, "untrained", "cosine", rounds) for rounds in (1, 10, 100)]
    shown = " | ".join(" / ".join(f"{cosine:.2f}" for cosine in some) for some in cosines)
    assert f"| {label} | {shown} |" in PAGE


def test_the_table_of_rules_is_what_was_run():
    logs = read_all(ROOT / "results" / "helpers_rules.jsonl.xz")
    assert helpers_by_rule(logs) in PAGE
    assert len(logs) == 351  # three seeds in every cell


@pytest.mark.parametrize("name", ["gram_rules", "helpers_groups"])
def test_the_table_of_searched_attacks_is_what_was_found(name):
    assert searched_table(searched(ROOT / "results", name)).markdown() in PAGE


@pytest.mark.parametrize(("size", "malicious"), [(4, 6), (3, 8), (2, 12)])
def test_the_page_says_up_to_how_many_attackers_resilience_is_the_default(size, malicious):
    settings = HelpersProtocol(size=size)
    kinds = [type(recommended_rule(settings, clients=100, malicious=m).rule) for m in (malicious, malicious + 1)]
    assert kinds == [Resilience, FilterL2]
    assert f"{malicious} " in PAGE.split("With 100 clients and a crowd of 25 that is beyond")[1][:120]


def test_what_the_clip_costs_is_what_was_run():
    found = defaultdict(list)
    for log in read_all(ROOT / "results" / "helpers_clip.jsonl.xz"):
        arm = log.header.arm
        found[arm["estimator"], arm["attack"], arm["clip_norm"]].append((log.header.seed, 100 * log.final_accuracy))

    def shown(rule, clip):
        return " / ".join(f"{accuracy:.1f}" for _, accuracy in sorted(found[rule, "none", clip])) + " %"

    text = " ".join(PAGE.split())
    for rule, between in (("FilterL2", "with a clip of about the median and"), ("Resilience", "and")):
        assert f"{shown(rule, '1.4')} {between} {shown(rule, '3.0')}" in text
    ends = sorted(end for (rule, *_), some in found.items() if rule == "Resilience" for _, end in some)
    assert [f"{end:.0f}" for end in ends[:2]] == ["81", "81"]
    assert f"two end at 81 % after 8 rounds, where the others have {ends[2]:.1f} to {ends[-1]:.1f} %" in text


def test_the_table_of_backdoors_and_groups_is_what_was_run():
    found = {}
    for log in read_all(ROOT / "results" / "helpers_backdoors.jsonl.xz"):
        arm, last = log.header.arm, log.rounds[-1]
        crowd = min(sum(weight > 0 for weight in record.weights) for record in log.rounds)
        place = found.setdefault(f"{arm['estimator']}, {arm['protocol']}", {})
        place[arm["attack"]] = (100 * last.accuracy, 100 * (last.success or 0), crowd)
    assert len(found) == 6
    for name, by_attack in found.items():
        least = min(crowd for _, _, crowd in by_attack.values())
        shown = [
            f"{accuracy:.1f}, {success:.1f}" for accuracy, success, _ in map(by_attack.get, ("as trained", "disguised"))
        ]
        assert f"| {name} | {least} | {by_attack['none'][0]:.1f} | {' | '.join(shown)} |" in PAGE
