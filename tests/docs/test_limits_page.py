"""The page on how many malicious clients are withstood is what its script writes from the committed records."""

import json
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


def test_what_was_planted_counts_and_stands_beside_the_success(tmp_path):
    """As `f2ed search` writes it, with fields that the page does not need."""
    found = {"setting": "5, i.i.d.", "rule": "fence", "trials": 18, "stopped": 2, "honest": [0.95, 0.95], "file": "x"}
    backdoor = {"objective": "backdoor", "success": [0.13, 0.15], "unpoisoned": [0.12, 0.1], "planted": [0.01, 0.05]}
    accuracy = {"objective": "accuracy", "success": [], "unpoisoned": [], "planted": []}
    every = [
        {**found, **backdoor, "accuracy": [0.95, 0.95], "attack": {"kind": "iba"}},
        {**found, **accuracy, "accuracy": [0.94, 0.94], "attack": {"kind": "edge"}},
    ]
    (tmp_path / "searched").mkdir()
    (tmp_path / "searched" / "planted.json").write_text(json.dumps(every))
    made = limits_page(tmp_path)
    assert (
        "| 5 | FilterL2 + fence | 95.0 ± 0.0 | 94.0 ± 0.0 (edge) | 3.0 ± 2.0 (iba) | 14.0 ± 1.0 | 11.0 ± 1.0 |" in made
    )
    assert "reached more than 3.0 %, no attack cost" in " ".join(made.split())
    assert "learned triggers apart" not in made
