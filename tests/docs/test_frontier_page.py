"""The page on rules against searched attacks is what its script writes from the committed records."""

from pathlib import Path

import pytest

from f2ed.experiments.reproduction.aimed import aimed_table
from f2ed.experiments.reproduction.frontier_page import frontier_page
from f2ed.experiments.reproduction.searched import Searched, fewer_malicious, searched, searched_table, worst_of

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_its_script_writes():
    assert (ROOT / "docs" / "frontier.md").read_text(encoding="utf-8") == frontier_page(ROOT / "results")


@pytest.mark.parametrize(("name", "settings", "rules"), [("shards", 3, 6), ("shards_2", 3, 1), ("client_rows", 2, 6)])
def test_a_search_has_a_row_for_each_setting_and_rule(name, settings, rules):
    found = searched(ROOT / "results", name)
    rows = searched_table(found).rows
    assert len(rows) == len({row[:2] for row in rows}) == settings * rules
    assert {len(each.accuracy) for each in found} == {3}


def test_a_search_that_was_not_run_has_no_results(tmp_path):
    assert searched(tmp_path, "shards") == []


def test_every_number_of_malicious_clients_was_run():
    table = fewer_malicious(ROOT / "results")
    assert table.head == ("rule", "1 malicious", "2 malicious", "3 malicious", "5 malicious")
    assert "not run" not in {text for row in table.rows for text in row}


def test_the_worse_of_two_searches_counts_with_the_trials_of_both():
    def found(objective, trials, accuracy, success):
        return Searched("i.i.d.", "AlignIns", objective, trials, 1, [0.95], accuracy, success, {"kind": "edge"})

    many = [
        found("accuracy", 16, [0.5, 0.7], []),
        found("backdoor", 16, [0.9], [0.2]),
        found("accuracy", 10, [0.9, 0.9], []),
        found("backdoor", 10, [0.9], [0.8]),
    ]
    accuracy, backdoor = worst_of(many)
    assert (accuracy.trials, accuracy.stopped, accuracy.accuracy) == (26, 2, [0.5, 0.7])
    assert (backdoor.trials, backdoor.success) == (26, [0.8])


def test_the_rule_that_the_attack_was_made_for_loses_most():
    rows = aimed_table(ROOT / "results").rows
    assert rows[-1][0] == "AlignIns"
    assert "FilterL2" in [row[0] for row in rows]
