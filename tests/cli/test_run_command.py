"""`f2ed run`, as used at a terminal."""

import io
import json
import lzma
import shutil

import pytest
from rich.console import Console

from f2ed.cli.board import follow
from f2ed.core.errors import MissingExtra
from f2ed.experiments import prepare, run_all, runner
from f2ed.experiments.file import parse

FILE = """
title = "Small"
data = { kind = "synthetic", train = 240, test = 60, side = 4 }
model = { kind = "mlp", hidden = [8] }
clients = 12
malicious = 1
shards = 4
rounds = 2
attack = ["none", "trimmed-mean-attack"]
estimator = ["mean", "filter-l2"]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return path


def test_it_ends_with_a_verdict_a_table_and_where_to_look(f2ed, file, tmp_path):
    status, out, _ = f2ed("run", file, "--device", "cpu")
    assert status in (0, None)
    assert "none, mean, started: round 0/2" in out
    assert "Under trimmed-mean-attack, filter-l2: accuracy" in out
    assert "weight on" in out  # in the head of the table alone
    page = tmp_path / "runs" / "small" / "index.html"
    assert str(page.relative_to(tmp_path)) in out
    assert page.read_text().startswith("<!doctype html>")
    assert len(list(page.parent.glob("*.jsonl"))) == 4


def test_parts_may_vary_different_settings(f2ed, tmp_path):
    path = tmp_path / "parts.toml"
    settings = FILE.replace('estimator = ["mean", "filter-l2"]', 'estimator = ["mean"]').replace('"none", ', "")
    path.write_text(settings + '[[part]]\nname = "one"\nbits = [20]\n[[part]]\nname = "two"\nclient_momentum = [0.9]\n')
    status, out, _ = f2ed("run", path, "--device", "cpu", "--rounds", "1")
    assert status in (0, None)
    assert "Under trimmed-mean-attack, mean" in out
    assert "Records: " in out


def test_the_page_is_about_the_runs_of_this_command_alone(f2ed, file, tmp_path):
    f2ed("run", file, "--rounds", "1")
    f2ed("run", file, "--only", ", mean")
    text = (tmp_path / "runs" / "small" / "index.html").read_text()
    assert "<h1>Small</h1>" in text
    assert "All runs (2)" in text


def test_the_live_page_is_there_while_it_runs(f2ed, file):
    status, out, _ = f2ed("run", file, "--only", "none, mean", "--watch", "--port", "0")
    assert status in (0, None)
    assert "Live report: http://127.0.0.1:" in out


def test_without_the_extra_there_is_no_page_and_the_run_counts_all_the_same(f2ed, file, monkeypatch):
    def missing(*_, **__):
        raise MissingExtra("the page", "report")

    monkeypatch.setattr("f2ed.cli.run.write_page", missing)
    status, out, _ = f2ed("run", file, "--only", "none, mean")
    assert status in (0, None)
    assert "No report was written" in out
    assert "Report: " not in out


def test_runs_that_are_in_an_archive_are_on_the_page(f2ed, file, tmp_path):
    f2ed("run", file, "--only", ", mean")
    folder = tmp_path / "runs" / "small"
    records = b"".join(path.read_bytes() for path in sorted(folder.glob("*.jsonl")))
    folder.with_name("small.jsonl.xz").write_bytes(lzma.compress(records))
    shutil.rmtree(folder)
    runner._archived.cache_clear()  # which a second command would not have
    status, out, _ = f2ed("run", file, "--only", ", mean")
    assert status in (0, None)
    assert "done before" in out
    assert "All runs (2)" in (folder / "index.html").read_text()


def test_runs_in_an_archive_are_not_repeated_when_newer_ones_lie_beside_it(f2ed, file, tmp_path):
    f2ed("run", file, "--only", "none, mean")
    folder = tmp_path / "runs" / "small"
    (old,) = folder.glob("*.jsonl")
    folder.with_name("small.jsonl.xz").write_bytes(lzma.compress(old.read_bytes()))
    old.unlink()
    f2ed("run", file, "--only", "none, filter-l2")
    runner._archived.cache_clear()  # which another command would not have
    _, out, _ = f2ed("run", file, "--only", "none, mean")
    assert "none, mean, done before" in out
    assert not old.exists()


def test_what_was_done_is_not_done_again(f2ed, file):
    f2ed("run", file, "--only", "none, mean")
    _, out, _ = f2ed("run", file)
    assert "none, mean, done before: round 2/2" in out
    assert "none, filter-l2, started" in out


def test_only_names_some_runs_and_rounds_may_be_fewer(f2ed, file):
    _, out, err = f2ed("run", file, "--only", "filter-l2", "--rounds", "1", "--json")
    found = json.loads(out)
    assert [each["name"] for each in found["results"]] == ["none, filter-l2", "trimmed-mean-attack, filter-l2"]
    assert found["page"].endswith("index.html")
    assert "round 1/1" in err


def test_only_may_be_given_twice_and_parts_are_chosen_by_name(f2ed, file):
    with file.open("a") as more:
        more.write('\n[[part]]\nname = "a"\nseed = [0, 1]\n\n[[part]]\nname = "b"\nseed = [2]\n')
    _, out, _ = f2ed("run", file, "--part", "a", "--only", "mean", "--only", "seed 1", "--rounds", "1", "--json")
    assert {each["arm"]["seed"] for each in json.loads(out)["results"]} == {"1"}
    status, _, _ = f2ed("run", file, "--part", "c")
    assert "unknown part c; choose from: a, b" in status


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--only", "krum"], "no run of"),
        (["--jobs", "0"], "--jobs 0"),
        (["--device", "toaster"], "there is no device 'toaster'"),
        (["--rounds", "0"], "rounds"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(f2ed, file, arguments, complaint):
    status, _, _ = f2ed("run", file, *arguments)
    assert complaint in status
    assert "\n" not in status


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_trained_models_are_saved_beside_the_records(f2ed, file, tmp_path, jobs):
    f2ed("run", file, "--rounds", "1", "--save-model", "--jobs", jobs, "--out", tmp_path / "runs")
    records = sorted(path.stem for path in (tmp_path / "runs/small").glob("*.jsonl"))
    models = sorted(path.stem for path in (tmp_path / "runs/small").glob("*.safetensors"))
    assert models == records != []


def test_an_output_folder_that_is_a_file_is_refused(f2ed, file, tmp_path):
    (tmp_path / "taken").write_text("")
    status, _, _ = f2ed("run", file, "--out", tmp_path / "taken")
    assert "a file is in the way" in status
    assert "\n" not in status


def test_a_wrong_key_is_refused_before_anything_starts(f2ed, file, tmp_path):
    file.write_text(FILE + "rouns = 3")
    status, out, _ = f2ed("run", file)
    assert "small.toml: rouns: unknown setting; did you mean rounds?" in status
    assert out == ""
    assert not (tmp_path / "runs").exists()


def test_ctrl_c_is_safe_and_the_run_goes_on_afterwards(f2ed, file, monkeypatch):
    from f2ed.experiments import runner

    append = runner.append

    def interrupted(path, content):
        append(path, content)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runner, "append", interrupted)
        status, out, _ = f2ed("run", file)
    assert status == 130
    assert "Nothing is lost" in out
    status, out, _ = f2ed("run", file)
    assert status in (0, None)
    assert "Under trimmed-mean-attack" in out


def test_a_terminal_sees_a_live_table(tmp_path):
    screen = Console(file=io.StringIO(), force_terminal=True, width=100, highlight=False)
    cells, loaded = prepare(parse(FILE.replace("rounds = 2", "rounds = 1"), "small.toml"))
    logs = follow(cells, run_all(cells, tmp_path, loaded=loaded, workers=1), screen)
    shown = screen.file.getvalue()
    assert len(logs) == 4
    assert "4 of 4 runs done" in shown
    assert "attack success" in shown


SCHEDULES = FILE.replace("rounds = 2", 'rounds = 9\nschedule = ["fixed", "every-round"]').replace(
    '\nattack = ["none", "trimmed-mean-attack"]\nestimator = ["mean", "filter-l2"]', '\nestimator = "mean"'
)


def test_it_warns_of_a_schedule_that_exposes_single_clients(f2ed, file):
    file.write_text(SCHEDULES)
    status, out, _ = f2ed("run", file, "--device", "cpu")
    assert status in (0, None)
    assert "Warning, 1 of 2 runs, such as every-round: schedule: Over 9 rounds the sums determine all 12" in out


def test_with_strict_it_refuses_that_schedule_before_anything_starts(f2ed, file, tmp_path):
    file.write_text(SCHEDULES)
    status, _, _ = f2ed("run", file, "--device", "cpu", "--strict")
    assert status.startswith("1 of 2 runs, such as every-round: schedule: Over 9 rounds")
    assert not (tmp_path / "runs").exists()
    assert f2ed("run", file, "--device", "cpu", "--strict", "--only", "fixed")[0] in (0, None)


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("dmo", "did you mean demo or"),
        ("nothing-like-it", "`f2ed list experiments` shows all of them"),
        ("folder/demo.toml", "did you mean demo?"),
    ],
)
def test_an_unknown_experiment_is_refused_with_close_names(f2ed, wanted, hint):
    status, _, _ = f2ed("run", wanted)
    assert f"{wanted} is neither a file nor a shipped experiment; " in status
    assert hint in status


def test_a_shipped_experiment_is_found_by_its_name(f2ed, tmp_path):
    status, out, _ = f2ed("run", "smoke", "--only", "none, mean", "--rounds", "1", "--device", "cpu")
    assert status in (0, None)
    assert f"Records: {(tmp_path / 'runs' / 'smoke').relative_to(tmp_path)}" in out
