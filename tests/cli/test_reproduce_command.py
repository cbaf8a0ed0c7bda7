"""`f2ed reproduce`, as used at a terminal."""

import json
from pathlib import Path

import pytest

from f2ed.learning.datasets import Synthetic

FILE = """
title = "Small"
about = "Made up."
data = ["mnist"]
model = { kind = "mlp", hidden = [8] }
clients = 12
malicious = 1
shards = 4
rounds = 2
seed = [0]
attack = ["none", { label = "TMA (released)", kind = "trimmed-mean-attack", variant = "released" }]
estimator = [{ label = "FilterL2", kind = "filter-l2" }, { label = "Mean", kind = "mean" }]

[[part]]
name = "no-attack"
attack = ["none"]

[[part]]
name = "all"

[quick]
rounds = 1
"""


@pytest.fixture
def f2ed(f2ed, monkeypatch, tmp_path):
    """Run the command where the paper's file is small and MNIST made up; return status and standard output."""
    file = tmp_path / "fig2_shards.toml"
    file.write_text(FILE)
    monkeypatch.setattr("f2ed.cli.reproduce.experiment_file", lambda _: file)
    made_up = Synthetic(train=240, test=60, side=8)()
    monkeypatch.setattr("f2ed.learning.datasets.Mnist.__call__", lambda *_, **__: made_up)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: f2ed(*arguments)[:2]


def test_it_runs_the_grid_and_sets_it_beside_the_paper(f2ed):
    _, out = f2ed("reproduce", "fig2")
    assert "| mnist | TMA | accuracy | FilterL2 |" in out
    assert "| 95.38 |" in out
    assert "4 of 4 runs are available" in out
    assert "seconds per run on cpu (4 runs)" in out
    page = Path("runs/fig2_shards/table.md").read_text()
    assert "Bidirectional Protection" in page
    assert len(list(Path("runs/fig2_shards/figures").glob("*.svg"))) == 1


def test_a_part_may_be_run_and_the_rest_is_said_not_to_be(f2ed):
    _, out = f2ed("reproduce", "fig2", "--part", "no-attack", "--only", "Mean")
    assert "1 of 4 runs are available" in out
    assert "| mnist | TMA | accuracy | FilterL2 | not run |  | not run | not run | 95.38 |  | not run |" in out


def test_from_records_alone_nothing_is_run(f2ed):
    f2ed("reproduce", "fig2", "--part", "no-attack")
    Path("runs/fig2_shards").rename("kept")
    _, out = f2ed("reproduce", "fig2", "--from", "kept", "--out", "elsewhere")
    assert "2 of 4 runs are available" in out
    assert not list(Path("elsewhere").rglob("*.jsonl"))
    Path("empty").mkdir()
    status, _ = f2ed("reproduce", "fig2", "--from", "empty")
    assert "is a finished run of" in status


def test_a_record_from_before_a_setting_was_there_is_in_the_same_figure(f2ed):
    f2ed("reproduce", "fig2", "--part", "no-attack")
    record = next(Path("runs/fig2_shards").glob("*mean*.jsonl"))
    header, *rounds = record.read_text().splitlines()
    old = json.loads(header)
    del old["settings"]["attack_from"], old["settings"]["client_momentum"]
    record.write_text("\n".join([json.dumps(old), *rounds, ""]))
    _, out = f2ed("reproduce", "fig2", "--from", "runs/fig2_shards")
    assert "2 of 4 runs are available" in out
    assert out.count("Figure:") == 1


def test_the_quick_version_is_checked_with_the_full_runs_there_are(f2ed):
    _, out = f2ed("reproduce", "fig2", "--quick")
    assert "There are no full runs to check these conclusions against." in out
    assert "Made up." not in out  # which describes the full version
    assert "Quick version, not the setting of the full one: rounds 1." in out
    f2ed("reproduce", "fig2", "--part", "no-attack", "--out", "results")
    _, out = f2ed("reproduce", "fig2", "--quick")
    assert "of 2 conclusions agree with the full version." in out
    assert "Compared with the paper" not in out
    assert "full version" in Path("runs/fig2_shards-quick/table.md").read_text()
    status, _ = f2ed("reproduce", "fig2", "--quick", "--part", "no-attack")
    assert "--quick has no parts" in status


def test_figure_3_is_a_picture_and_a_test(f2ed):
    _, out = f2ed("reproduce", "fig3", "--quick")
    assert "clients by their labels" in out
    assert "of the variance of the updates is between shards" in out
    folder = Path("runs/fig3-quick")
    assert (folder / "distribution.svg").read_text().startswith("<?xml")
    assert json.loads((folder / "distribution.json").read_text())["by_labels"]["p"] <= 1
    _, again = f2ed("reproduce", "fig3", "--from", folder)
    assert "clients by their labels" in again
    Path("empty").mkdir()
    status, _ = f2ed("reproduce", "fig3", "--from", "empty")
    assert "there is no distribution.json in empty; create it with f2ed reproduce fig3" in status


def test_all_figures_go_on_where_one_was_not_run(f2ed, monkeypatch):
    f2ed("reproduce", "fig2", "--only", "Mean")
    f2ed("reproduce", "fig3", "--quick")
    other = Path("other.toml")
    other.write_text(FILE.replace("rounds = 2", "rounds = 3"))
    mine = Path("fig2_shards.toml").absolute()
    monkeypatch.setattr("f2ed.cli.reproduce.experiment_file", lambda name: mine if name == "fig2" else other.absolute())
    _, out = f2ed("reproduce", "all", "--from", "runs")
    assert "is a finished run of" in out
    assert "2 of 4 runs are available" in out
    assert "clients by their labels" in out


def test_figure_6_sets_the_end_of_the_runs_against_the_number_of_shards(f2ed):
    file = Path("fig2_shards.toml")
    file.write_text(FILE.replace("shards = 4", "shards = [1, 4]\nsecure = false"))
    _, out = f2ed("reproduce", "fig6", "--only", "TMA", "--only", "FilterL2")
    assert "| shards | contaminated | TMA (released), FilterL2: accuracy |" in out
    assert "with half or more of the shards contaminated." in out
    (picture,) = Path("runs/fig2_shards/figures").glob("*.svg")
    drawn = picture.read_text()
    assert "TMA (released), FilterL2: accuracy" in drawn
    assert ">4</text>" in drawn
    assert "at least half of the shards are contaminated" in drawn
