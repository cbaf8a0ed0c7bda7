"""`f2ed log`: what it prints, and how it ends."""

import json

import pytest

from f2ed.deployment.keyfiles import read_private, read_public
from f2ed.deployment.roster import read_roster, write_roster
from f2ed.deployment.transparency.lines import SERVER
from f2ed.protocol.secagg import public_key
from tests.deployment.logs import Federation, began, closed, texts


@pytest.fixture
def federation(tmp_path):
    made = Federation.create(tmp_path)
    write_roster(tmp_path / "roster.json", made.roster)
    return made


def test_an_untouched_log_verifies(federation, f2ed):
    federation.written()
    status, out, _ = f2ed("log", "verify", "a.log", "--roster", "roster.json")
    assert status == 0
    assert "a.log: client 0 (a), 8 lines (0 to 7)" in out
    assert out.endswith("No problems found.\n")


def test_a_problem_is_shown_with_its_meaning_and_the_signed_lines(federation, f2ed):
    log = federation.written()
    log.append(began(1))
    status, out, _ = f2ed("log", "verify", "a.log", "-r", "roster.json")
    assert status == 1
    assert "BEGAN-TWICE at a.log:9: client 0 (a) began round 1 in line 4 and in 8" in out
    assert "takes part in a round once" in out
    assert texts(log)[8].decode() in out.replace("\n  ", "\n")
    assert out.endswith("1 problems found.\n")


def test_a_note_is_no_problem(federation, f2ed):
    log = federation.written()
    log.path.write_bytes(log.path.read_bytes()[:-30])
    status, out, _ = f2ed("log", "verify", "a.log", "-r", "roster.json")
    assert status == 0
    assert "torn-end at a.log" in out


def test_a_split_view_is_found_by_comparing(federation, f2ed):
    federation.log(0).append(began())
    federation.log(1).append(began(input=b"x" * 32))
    federation.log(SERVER).append(closed())
    status, out, _ = f2ed("log", "compare", "a.log", "b.log", "server.log", "-r", "roster.json", "--json")
    assert status == 1
    (found,) = json.loads(out)["findings"]
    assert (found["kind"], found["serious"], found["where"]) == ("split-view", True, "round 0, shard 0")
    assert [line["by"] for line in found["lines"]] == [SERVER, 1]
    assert [file["path"] for file in json.loads(out)["files"]] == ["server.log", "a.log", "b.log"]


def test_files_are_needed(federation, f2ed):
    federation.written()
    assert "no logs given" in f2ed("log", "verify", "-r", "roster.json")[0]
    assert "name two or more" in f2ed("log", "compare", "a.log", "-r", "roster.json")[0]


def test_a_large_file_shows_progress_on_a_terminal(federation, f2ed, monkeypatch):
    federation.written()
    monkeypatch.setattr("f2ed.cli.log._PROGRESS_BYTES", 1000)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert "a.log: 34 %" in f2ed("log", "verify", "a.log", "-r", "roster.json")[2]


def test_the_key_of_the_server_is_made(f2ed, tmp_path):
    status, out, _ = f2ed("log", "key", "server.key")
    assert status == 0
    assert "f2ed roster server roster.json server.pub" in out
    assert public_key(read_private(tmp_path / "server.key")) == read_public(tmp_path / "server.pub")


def test_the_key_of_the_server_is_put_on_the_roster(f2ed, tmp_path):
    f2ed("log", "key", "server.key")
    f2ed("roster", "new", "roster.json", "--name", "clinics", "--authority", "authority.key")
    f2ed("roster", "server", "roster.json", "server.pub")
    found = read_roster(tmp_path / "roster.json")
    assert (found.server, found.signature) == (read_public(tmp_path / "server.pub"), b"")
