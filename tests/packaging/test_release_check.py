"""What `make release-check` takes from the README: its commands, and an example that shows what it says."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


@pytest.fixture
def readme(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts" / "release_check")
    import readme

    yield readme
    del sys.modules["readme"]


def test_the_commands_of_the_readme_are_found(readme):
    found = [command[1] for command in readme.commands(README)]
    assert {"plan", "run", "list", "up", "reproduce", "audit"} <= set(found)


def test_what_takes_minutes_is_shortened_and_the_rest_is_run_as_it_stands(readme):
    assert readme.shortened(["f2ed", "run", "demo"])[:3] == ["f2ed", "run", "demo"]
    assert "--rounds" in readme.shortened(["f2ed", "run", "demo"])
    assert readme.shortened(["f2ed", "plan", "--clients", "9"]) == ["f2ed", "plan", "--clients", "9"]


def test_a_readme_without_an_example_is_refused(readme, tmp_path):
    (tmp_path / "README.md").write_text("nothing", encoding="utf-8")
    with pytest.raises(SystemExit, match="no Python example"):
        readme.example(tmp_path / "README.md")


def test_the_example_of_the_readme_shows_what_its_comments_say(readme, capsys):
    exec(compile(readme.example(README), "README.md", "exec"), {})  # noqa: S102  ours
    plain, robust, *weights = capsys.readouterr().out.replace("[", "").replace("]", "").split()
    assert float(plain) == pytest.approx(19, abs=1)
    assert float(robust) < 0.1
    assert len(weights) == 8
    assert max(map(float, weights)) < 0.001
