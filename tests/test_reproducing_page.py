"""The page about the paper's figures says what the committed records say."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "scripts"))

import reproducing  # noqa: E402  it lies in the folder just named

RESULTS = ROOT / "results"


def test_the_page_is_what_the_script_makes_of_the_records():
    assert (ROOT / "docs" / "reproducing.md").read_text(encoding="utf-8") == reproducing.page(RESULTS)


@pytest.mark.parametrize(("page", "short"), [("docs/index.md", False), ("README.md", True)])
def test_so_are_the_worst_cases_on_the_front_pages(page, short):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert reproducing.BEGIN in text
    assert reproducing.front(RESULTS, text, short=short) == text


def test_so_is_the_advice_on_choosing_an_estimator():
    text = (ROOT / "docs" / "choosing_estimator.md").read_text(encoding="utf-8")
    assert reproducing.BEGIN in text
    assert reproducing.advice(RESULTS, text) == text


def test_what_was_not_run_is_said(tmp_path):
    page = reproducing.page(tmp_path)
    assert "None of it was run." in page
    assert "0 are as good or better here, 36 were not run" in page
    assert "`f2ed reproduce fig3` does" in page
    assert "was not run" in reproducing.advice(tmp_path, f"{reproducing.BEGIN}{reproducing.END}")
    assert "It was not run." in reproducing.front(tmp_path, f"{reproducing.BEGIN}{reproducing.END}")


def test_a_record_less_is_a_page_that_differs(tmp_path):
    shutil.copytree(RESULTS, tmp_path / "results")
    first = min((tmp_path / "results" / "fig2_shards").iterdir())
    first.unlink()
    assert reproducing.page(tmp_path / "results") != reproducing.page(RESULTS)


def test_a_rule_that_one_worst_case_lacks_is_said_not_to_be_run(tmp_path):
    for name in ("worst_case", "worst_case_few_labels"):
        (tmp_path / name).mkdir()
        for path in (RESULTS / name).glob("*malicious-10-*none-alie-krum*"):
            shutil.copy(path, tmp_path / name)
    (kept,) = list((RESULTS / "worst_case_few_labels").glob("malicious-10-none-mean-alie-*"))
    shutil.copy(kept, tmp_path / "worst_case_few_labels")
    made = reproducing.front(tmp_path, f"{reproducing.BEGIN}{reproducing.END}", short=True)
    assert "| Krum | not run |" in made
    assert made.count("not run |") >= 3


def test_the_front_page_keeps_what_stands_around_the_table(tmp_path):
    made = reproducing.front(tmp_path, f"before {reproducing.BEGIN}old{reproducing.END} after")
    assert made.startswith("before ")
    assert made.endswith(" after")
    assert "old" not in made
