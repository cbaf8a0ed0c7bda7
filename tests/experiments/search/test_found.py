"""What is saved of a search."""

import pytest

import f2ed.experiments.search.found as module
from f2ed.core.errors import ConfigError
from f2ed.experiments.file import parse
from f2ed.experiments.grid import expand
from f2ed.experiments.search.found import experiment_text
from f2ed.experiments.search.summary import Found, table
from f2ed.simulation import experiment
from f2ed.simulation.header import digest

SETTINGS = {
    "data": {"kind": "synthetic", "train": 240},
    "clients": 16,
    "malicious": 2,
    "shards": 4,
    "rounds": 3,
    "schedule": {"kind": "batches", "size": 2},
    "attack": {"kind": "dba", "rounds": (1, 2), "boost": 0.1 + 0.2},
    "estimator": {"kind": "nnm", "inner": "median"},
    "placement": "packed",
    "dp": None,
}


def test_a_saved_file_states_exactly_the_settings():
    made = experiment(SETTINGS)
    text = experiment_text(made, title='A "title"', about="Über\nall", path="found.toml")
    (cell,) = expand(parse(text, "found.toml"))
    assert cell.experiment == made
    assert digest(cell.experiment) == digest(made)
    assert (cell.name, cell.about) == ('A "title"', "Über\nall")
    assert "0.30000000000000004" in text


def test_a_file_that_would_not_repeat_the_run_is_refused(monkeypatch):
    whole = module._value
    monkeypatch.setattr(module, "_value", lambda value: "0.3" if isinstance(value, float) else whole(value))
    with pytest.raises(ConfigError, match=r"found\.toml would not repeat the run"):
        experiment_text(experiment(SETTINGS), title="", about="", path="found.toml")


def found(**changes):
    return Found(
        **{
            "setting": "i.i.d.",
            "rule": "mean",
            "objective": "backdoor",
            "trials": 4,
            "stopped": 1,
            "honest": (0.9, 0.92),
            "accuracy": (0.8, 0.9),
            "success": (0.5, 0.7),
            "unpoisoned": (0.1, 0.1),
            "planted": (0.4, 0.6),
            "attack": {"kind": "dba"},
        }
        | changes
    )


def test_the_table_has_one_row_for_each_rule():
    made = table([found(), found(objective="accuracy", accuracy=(0.3,), success=(), attack={"kind": "oracle"})])
    (row,) = made.rows
    assert row == (
        "i.i.d.",
        "mean",
        "91.0 ± 1.0",
        "30.0 (oracle)",
        "50.0 ± 10.0 (dba)",
        "60.0 ± 10.0",
        "10.0 ± 0.0",
        "85.0 ± 5.0",
        "8",
    )


def test_what_was_not_searched_is_named():
    (row,) = table([found(setting="", accuracy=(), success=(), unpoisoned=(), planted=())]).rows
    assert row == ("mean", "91.0 ± 1.0", "not searched", *["not run"] * 4, "4")
