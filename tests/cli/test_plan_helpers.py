import json

import pytest

from f2ed.cli.app import app
from f2ed.core.errors import ConfigError


def run(line: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        app(f"plan {line}")
    return int(exit_.value.code or 0)


def test_it_shows_what_helpers_guarantee(capsys):
    assert run("--protocol helpers --clients 100 --malicious 8 --strict") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Guaranteed: 100 clients tolerate 8 malicious clients, and a sum has at least 36 of them." in shown
    assert "no two of server, mixer and judge collude" in shown


def test_strict_fails_without_the_theorem():
    assert run("--protocol helpers --clients 100 --malicious 9 --strict") == 1


def test_json_is_for_programs(capsys):
    assert run("--protocol helpers --clients 100 --malicious 8 --guard nested --group-size 5 --json") == 0
    assert json.loads(capsys.readouterr().out)["worst_crowd"] == 84


def test_it_warns_of_nested_sets_over_many_rounds(capsys):
    assert run("--protocol helpers --clients 100 --malicious 8 --guard nested --rounds 60") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Warning: Nested sets: after 60 rounds" in shown


def test_what_is_about_shards_is_refused():
    with pytest.raises(ConfigError, match="--protocol helpers has no shards, samples or noise"):
        app("plan --protocol helpers --clients 100 --malicious 8 --shards 25")
