"""The page on rules against searched attacks is what its script writes from the committed records."""

from pathlib import Path

import pytest

from f2ed.experiments.reproduction.frontier_page import frontier_page
from f2ed.experiments.reproduction.searched import fewer_malicious, searched, searched_table

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_its_script_writes():
    assert (ROOT / "docs" / "frontier.md").read_text(encoding="utf-8") == frontier_page(ROOT / "results")


@pytest.mark.parametrize(("name", "settings", "rules"), [("shards", 3, 6), ("client_rows", 2, 6)])
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
