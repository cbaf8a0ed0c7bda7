"""The page on how many malicious clients are withstood is what its script writes from the committed records."""

import json
from pathlib import Path

from f2ed.experiments.reproduction.limits import limits_page
from f2ed.experiments.reproduction.repaired import Effect, Repaired, repair_table

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


def test_a_clean_up_has_a_row_for_each_method_beside_the_model_as_trained():
    def one(method, samples, seed, success):
        before, after = Effect(0.95, 1.0), Effect(0.93, success)
        return Repaired("i.i.d.", "FilterL2", seed, method, samples, before, after)

    made = repair_table(
        [one("fine-tune", 100, "0", 0.5), one("fine-tune", 100, "1", 0.7), one("fine-tune", 500, "0", 0.1)]
    )
    assert made.rows == (
        ("i.i.d.", "FilterL2", "none", *["95.0 ± 0.0", "100.0 ± 0.0"] * 2),
        ("i.i.d.", "FilterL2", "`fine-tune`", "93.0 ± 0.0", "60.0 ± 10.0", "93.0", "10.0"),
    )
