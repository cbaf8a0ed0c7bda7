"""The page on what the server learns says what the runs of the privacy dial found."""

from pathlib import Path

import pytest

from f2ed.experiments.reproduction.privacy_dial import training_table
from f2ed.records import read_all

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "what_the_server_learns.md").read_text(encoding="utf-8")
RUNS = ROOT / "results" / "privacy_dial.jsonl.xz"


@pytest.mark.skipif(not RUNS.exists(), reason="the records are not part of a source distribution")
def test_the_table_of_the_dial_is_what_the_records_say():
    rows = list(training_table(read_all(RUNS)))
    assert len(rows) == 2 + 7
    for row in rows:
        assert row in PAGE


def test_the_command_shown_is_one_that_works(capsys):
    """The numbers of the plan on the page, from the command that stands above them."""
    from f2ed.cli.app import app

    command = next(line for line in PAGE.splitlines() if line.startswith("$ f2ed plan") and "--noise" in line)
    with pytest.raises(SystemExit) as exit_:
        app(command.removeprefix("$ f2ed "))
    assert not exit_.value.code
    shown = capsys.readouterr().out
    for line in PAGE.split(command)[1].split("```")[0].splitlines():
        if line.strip(" …─"):
            assert " ".join(line.split()) in " ".join(shown.split()), line
