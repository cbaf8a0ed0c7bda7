"""The page on how many malicious clients are withstood is what its script writes from the committed records."""

from pathlib import Path

from f2ed.experiments.reproduction.limits import limits_page

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_its_script_writes():
    assert (ROOT / "docs" / "limits.md").read_text(encoding="utf-8") == limits_page(ROOT / "results")


def test_sections_without_records_are_left_out(tmp_path):
    made = limits_page(tmp_path)
    assert made.startswith("# How many malicious clients are withstood")
    assert "Why ten are too many" not in made
    assert "Searched attacks" not in made
