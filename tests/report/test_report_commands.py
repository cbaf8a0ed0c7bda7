"""`f2ed report`, `watch`, `figures` and `export`, as a person at a terminal meets them."""

import json
import socket

import pytest

from f2ed.cli.app import app
from f2ed.core.errors import ConfigError
from tests.report.report_runs import demo, header, save


@pytest.fixture
def f2ed(monkeypatch, tmp_path, capsys):
    """Run a command in a folder of its own; return its error, standard output and standard error."""

    def command(*arguments):
        monkeypatch.chdir(tmp_path)
        error = ""
        try:
            app([*map(str, arguments)], result_action="return_value")
        except ConfigError as refused:
            error = str(refused)
        return error, *capsys.readouterr()

    return command


@pytest.fixture
def runs(tmp_path):
    return demo(tmp_path / "runs", estimators=("mean", "filter-l2"), attacks=("none", "trimmed-mean-attack"))


def test_report_says_the_verdict_and_where_the_page_is(f2ed, runs, tmp_path):
    error, out, _ = f2ed("report", runs, "-o", "out/demo.html")
    assert error == ""
    assert "FilterL2 held against the attack" in out
    assert "4 runs are on out/demo.html" in out
    assert (tmp_path / "out" / "demo.html").is_file()


def test_report_names_what_is_broken_and_goes_on(f2ed, runs):
    torn = save(runs, header(seed=4), name="torn")
    torn.write_bytes(torn.read_bytes()[:-5])
    error, out, _ = f2ed("report", runs)
    assert error == ""
    assert "torn.jsonl, line 13: is cut off" in out
    assert "5 runs are on report.html" in out


def test_report_speaks_json_to_programs(f2ed, runs):
    _, out, _ = f2ed("report", runs, "--json")
    found = json.loads(out)
    assert found["runs"] == 4
    assert found["problems"] == []


def test_figures_are_written_and_named(f2ed, runs, tmp_path):
    _, out, _ = f2ed("figures", runs, "--format", "png")
    assert out.split() == ["figures/figure.png"]
    assert (tmp_path / "figures" / "figure.png").is_file()


def test_export_says_how_much_there_is(f2ed, runs, tmp_path):
    _, out, _ = f2ed("export", runs, "--to", "csv")
    assert "48 rounds of 4 runs are in records.csv" in out
    assert len((tmp_path / "records.csv").read_text().splitlines()) == 49


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["report"], "no runs given"),
        (["report", "nowhere"], "nowhere does not exist"),
        (["figures"], "no runs given"),
        (["export", "runs"], "--to csv"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(f2ed, runs, tmp_path, arguments, complaint):  # noqa: ARG001
    (tmp_path / "file.jsonl").write_text("")
    error, _, _ = f2ed(*arguments)
    assert complaint in error
    assert "\n" not in error


def test_files_of_no_use_are_named_before_the_refusal(f2ed, tmp_path):
    (tmp_path / "bad.jsonl").write_text("nothing\n")
    error, out, _ = f2ed("figures", "bad.jsonl")
    assert "no run could be read" in error
    assert "bad.jsonl, line 1" in out


def test_watch_says_where_to_look_and_that_it_waits(f2ed, monkeypatch):
    monkeypatch.setattr("f2ed.cli.watch._until_interrupted", lambda: None)
    _, out, _ = f2ed("watch", "later", "--port", "0")
    assert "later does not exist yet" in out
    assert "at http://127.0.0.1:" in out


def test_watch_refuses_a_busy_port(f2ed, runs):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        error, _, _ = f2ed("watch", runs, "--port", other.getsockname()[1])
    assert "is in use by another program" in error
