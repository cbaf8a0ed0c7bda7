"""The page on rivals is what its script writes from the committed records."""

from pathlib import Path

from f2ed.experiments.reproduction.other_guarantees import GroupTest, group_test_table
from f2ed.experiments.reproduction.side_by_side import (
    Standing,
    _attack,
    left_out,
    rival_table,
    side_by_side_page,
    standings,
    usable,
    winners,
)
from f2ed.records import read_all

ROOT = Path(__file__).parents[2]


def standing(rule, honest, attacked, success):
    return Standing("here", rule, {"none": [honest], "TMA": attacked}, {"backdoor x2": success})


ROWS = [
    standing("FilterL2", 95.0, [94.0, 92.0], [30.0, 50.0]),
    standing("AlignIns", 95.5, [91.0], [2.0]),
    standing("AlignIns (ours)", 95.4, [90.0], [3.0]),
    standing("RLR", 91.0, [91.0], [0.0]),
]


def test_the_page_is_what_its_script_writes():
    assert (ROOT / "docs" / "side_by_side.md").read_text(encoding="utf-8") == side_by_side_page(ROOT / "results")


def test_a_table_has_the_mean_over_seeds_and_half_their_range_and_says_whose_code_it_is():
    first, _, third, _ = rival_table(ROWS).rows
    assert rival_table(ROWS).head == ("rule", "code", "no attack", "TMA", "x2")
    assert first == ("FilterL2", "ours", "95.0", "93.0 ± 1.0", "40.0 ± 10.0")
    assert third == ("AlignIns", "ours", "95.4", "90.0", "3.0")


def test_the_side_that_lets_in_less_comes_first_and_a_rule_that_costs_too_much_does_not_count():
    assert [row.rule for row in usable(ROWS)] == ["AlignIns", "AlignIns (ours)", "FilterL2"]
    said = winners(ROWS)
    assert said.startswith("of theirs *AlignIns* lets in 2.0 % of its worst backdoor (backdoor x2)")
    assert "of ours *AlignIns, as here* lets in 3.0 %" in said
    assert "*FilterL2* keeps 93.0 % accuracy under its worst attack (TMA)" in said
    assert left_out(ROWS) == "More than 2 points below the best (95.5 %) without any attack: *RLR* (91.0 %)."
    assert left_out(ROWS[:3]) == ""


def test_a_rule_that_did_not_meet_every_backdoor_is_not_compared():
    fewer = Standing("here", "FLAME", {"none": [95.0]}, {})
    assert "FLAME" not in [row.rule for row in usable([*ROWS, fewer])]


def test_records_are_grouped_by_what_the_server_saw():
    first, later = (read_all(ROOT / "results" / "side_by_side" / f"{name}.jsonl.xz") for name in ("rivals", "rivals_2"))
    found = standings([*first, *later])
    assert {row.setting for row in found} >= {"Digits, 10 shards", "MNIST, 25 shards, three classes per client"}
    for row in found:
        assert all(0 <= value <= 100 for values in row.accuracy.values() for value in values)
        assert "none" not in row.success


def test_found_clients_are_counted_over_all_seeds():
    runs = [
        GroupTest("FedGT", 2, 0, [1, 2, 5], [1, 2], 0.9, 0.95),
        GroupTest("FedGT", 2, 1, [3], [3, 4], 0.9, 0.85),
        GroupTest("no defense", 2, 0, None, [1, 2], 0.9, 0.8),
    ]
    assert group_test_table(runs).rows == (("FedGT", "3 of 4, 1 wrong (90.0 %)"), ("no defense", "(80.0 %)"))


def test_what_a_setting_adds_to_the_name_of_an_attack_is_left_out():
    assert [_attack(name) for name in ("backdoor x2 (BackFed)", "adaptive backdoor, 4 tries", "TMA")] == [
        "backdoor x2",
        "adaptive backdoor",
        "TMA",
    ]


def test_a_setting_in_which_no_rule_met_every_backdoor_has_a_table_and_no_winner():
    rows = [
        Standing("here", "FilterL2", {"none": [9.0]}, {"DBA": [1.0]}),
        Standing("here", "RFA", {"none": [9.0]}, {"A3FL": [1.0]}),
    ]
    assert usable(rows) == []
    assert len(rival_table(rows).rows) == 2


def test_a_trigger_that_needs_no_poisoning_is_shown_and_not_compared():
    rows = [
        Standing("here", rule, {"none": [9.0]}, {"DBA": [dba], "IBA": [iba]})
        for rule, dba, iba in (("FilterL2", 2.0, 3.0), ("RFA", 1.0, 99.0))
    ]
    assert [row.rule for row in usable(rows)] == ["RFA", "FilterL2"]
    assert rows[1].largest == (1.0, "DBA")
    assert "IBA" in rival_table(rows).head
