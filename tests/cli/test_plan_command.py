import json
import re
from pathlib import Path

import pytest

from f2ed.cli.app import app
from f2ed.core.errors import ConfigError


def run(line: str) -> int:
    """Run the command and return its exit status."""
    with pytest.raises(SystemExit) as exit_:
        app(f"plan {line}")
    return int(exit_.value.code or 0)


def test_it_recommends_and_explains(capsys):
    assert run("--clients 1000 --malicious 2 --min-crowd 8") == 0
    shown = capsys.readouterr().out
    assert "Feasible: 25 to 125 shards" in shown
    assert "Guaranteed: 50 shards tolerate 2 malicious clients" in shown
    assert "12·2 = 24 < 50" in shown


def test_every_plan_of_the_front_page_can_be_made():
    page = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    plans = re.findall(r"f2ed plan (--[^`\n]+)", page)
    assert len(plans) >= 2
    assert [run(line) for line in plans] == [0] * len(plans)


def test_it_judges_the_papers_setting(capsys):
    assert run("--clients 100 --malicious 10 --shards 25") == 0
    shown = capsys.readouterr().out
    assert "No guarantee: 25 shards against 10 malicious clients" in shown
    assert "12·10 = 120 ≥ 25" in shown
    assert "enroll 484 clients instead of 100" in shown


def test_json_is_for_programs(capsys):
    assert run("--clients 100 --malicious 10 --shards 25 --json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert found["choice"]["region"] == "experience"
    assert sum(found["choice"]["contaminated"].values()) == pytest.approx(1)


def test_json_without_a_feasible_number_has_no_choice(capsys):
    assert run("--clients 20 --malicious 5 --min-crowd 2 --json") == 0
    assert json.loads(capsys.readouterr().out)["choice"] is None


@pytest.mark.parametrize(
    ("line", "status"),
    [("--clients 100 --malicious 10 --shards 25", 1), ("--clients 1000 --malicious 2 --min-crowd 8", 0)],
)
def test_strict_turns_a_missing_guarantee_into_an_exit_status(line, status):
    assert run(f"{line} --strict") == status


def test_impossible_numbers_end_in_one_clear_sentence():
    with pytest.raises(ConfigError, match="11 shards for 10 clients; choose from 1 to 10"):
        app("plan --clients 10 --malicious 1 --shards 11")


def test_help_has_an_example(capsys):
    assert run("--help") == 0
    assert "f2ed plan --clients 1000 --malicious 2 --min-crowd 8" in capsys.readouterr().out


PAGE = Path(__file__).parents[2] / "docs" / "choosing_p.md"
SHOWN = re.findall(r"^```console\n\$ f2ed plan ([-a-z0-9 ]+)\n(.+?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_page_on_choosing_p_shows_commands():
    assert len(SHOWN) == 3


@pytest.mark.parametrize(("line", "output"), SHOWN, ids=[line for line, _ in SHOWN])
def test_the_page_on_choosing_p_shows_what_the_command_prints(line, output, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    run(line)
    printed = capsys.readouterr().out
    assert [row.rstrip() for row in printed.splitlines()] == output.splitlines()
