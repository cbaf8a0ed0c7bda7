"""`f2ed search`, as used at a terminal."""

import json

import pytest

from f2ed.cli import search as command
from tests.experiments.search.small_search import FILE


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return path


def test_it_ends_with_a_table_and_files_that_repeat_the_attacks(f2ed, file, tmp_path):
    status, out, _ = f2ed(
        "search", file, "--budget", 1, "--device", "cpu", "--rule", '{kind = "median"}', "--rounds", 2
    )
    assert status in (0, None)
    assert "median, backdoor: trial 0, the worst so far, accuracy" in out
    assert "| rule | no attack | worst accuracy | worst backdoor |" in out
    assert "2 attacks tried, 0 of them stopped early" in out
    folder = tmp_path / "runs" / "small"
    assert (folder / "table.md").read_text() in out
    assert f"f2ed run {folder.relative_to(tmp_path) / 'found' / 'median-backdoor.toml'}" in out


def test_a_program_reads_json(f2ed, file):
    status, out, err = f2ed("search", file, "--budget", 1, "--json", "--objective", "accuracy", "--attack", "ipm")
    assert status in (0, None)
    (found,) = json.loads(out)
    assert (found["rule"], found["objective"], found["attack"]["kind"], found["trials"]) == (
        "mean",
        "accuracy",
        "ipm",
        1,
    )
    assert "trial 0" in err


def test_only_the_first_part_is_attacked_unless_others_are_named(f2ed, tmp_path):
    path = tmp_path / "parts.toml"
    path.write_text(FILE + '[[part]]\nname = "one"\nbits = [20]\n[[part]]\nname = "two"\nbits = [16]\n')
    common = ("--budget", 1, "--objective", "accuracy", "--rounds", 1)
    assert "bits 16" not in f2ed("search", path, *common)[1]
    assert "bits 16" in f2ed("search", path, *common, "--part", "two")[1]


def test_an_interrupted_search_says_how_to_resume(f2ed, file, monkeypatch, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "follow", interrupted)
    status, out, _ = f2ed("search", file, "--budget", 1)
    assert status == 130
    assert "run the same command to resume" in out
    assert "| mean | not run | not run | not run |" in (tmp_path / "runs" / "small" / "table.md").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--jobs", "0"], "--jobs 0: use at least 1"),
        (["--budget", "0"], "a budget of 0"),
        (["--rule", "{kind"], "--rule {kind: this is not a TOML table"),
        (["--rule", "filterl2"], "filterl2"),
        (["--attack", "alie"], "none of the attacks alie is searched for backdoor"),
        (["--part", "two"], "unknown part two"),
    ],
)
def test_what_cannot_work_is_refused(f2ed, file, words, says):
    status, _, _ = f2ed("search", file, *words)
    assert says in str(status)


def test_the_shipped_setting_is_found_without_naming_it():
    file = command._settings(
        command.read(command.find(command.Path("search"))), rule=("filter-l2",), part=(), rounds=None
    )
    assert [name for name, _ in file.parts] == ["iid"]
    assert file.settings["rounds"] == 30


def test_a_live_table_shows_every_study(tmp_path):
    import io

    from rich.console import Console

    from f2ed.cli.search_board import follow
    from f2ed.experiments.search import Search
    from f2ed.experiments.search.workers import Here
    from tests.experiments.search.small_search import plan

    made, loaded = plan(budget=1)
    search, text = Search(made, tmp_path), io.StringIO()
    follow(search, search.run(Here(loaded, device="cpu")), Console(file=text, force_terminal=True, width=120))
    assert "mean, backdoor" in text.getvalue()
    assert "model-replacement" in text.getvalue()
