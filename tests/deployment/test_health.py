"""Health probes: exit status 0 or 1, and a line that says why."""

from datetime import UTC, datetime, timedelta

import pytest

from f2ed.cli.health import health
from f2ed.core.errors import ConfigError
from f2ed.deployment.certs import server_certificate
from f2ed.deployment.health import node_health, run_health, superlink_health
from f2ed.deployment.run_lock import sole_run
from tests.deployment.deployed_run import CLOSED, GOOD, REJECTED, write_run
from tests.deployment.tls_server import answering


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run.jsonl", GOOD, REJECTED)


def test_a_run_is_healthy_while_it_is_alive_and_progresses(run):
    with sole_run([run], 5) as note:
        note(3)
        assert run_health(run).found == "in round 3, after 2 of 3 rounds"
        later = datetime.now(UTC) + timedelta(hours=3)
        silent = run_health(run, now=later)
        assert (silent.status, silent.found.startswith("no round has finished for 1")) == ("failed", True)
        assert run_health(run, max_age=1e6, now=later).status == "ok"


def test_a_run_that_waits_is_named_and_fails_only_after_the_set_time(run):
    with sole_run([run], 5) as note:
        note(3, "0 of 2 shards can open")
        # Waiting is no progress: time counts from the last round.
        assert run_health(run, max_age=1e12).status == "warning"
        failed = run_health(run, max_age=10)
        assert (failed.status, "it waits: 0 of 2 shards" in failed.found) == ("failed", True)


def test_a_run_that_died_is_not_healthy_and_one_that_finished_is(run):
    assert "it ended after 2 of 3 rounds" in run_health(run).found
    write_run(run, GOOD, REJECTED, CLOSED)
    assert run_health(run).found == "finished: 3 of 3 rounds"


def test_records_that_are_none_are_named(tmp_path):
    assert run_health(tmp_path / "none.jsonl").status == "failed"


def test_a_superlink_and_a_node_are_asked(tmp_path):
    tls = server_certificate(tmp_path, ["127.0.0.1"])
    with answering(tls) as address:
        assert superlink_health(address, tls.ca).status == "ok"
        assert node_health(address).status == "failed"
    assert superlink_health(address, tls.ca).status == "failed"
    assert superlink_health("nowhere", tls.ca).status == "failed"
    with answering() as address:
        assert node_health(address).status == "ok"
    assert node_health(address).status == "failed"
    assert node_health("nowhere").status == "failed"


def test_the_command_ends_with_the_status_of_the_worst(run, capsys):
    with sole_run([run], 5) as note:
        note(3)
        health(records=run)
        assert "in round 3" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        health(records=run)
    assert ended.value.code == 1


@pytest.mark.parametrize(("given", "why"), [({}, "nothing to probe"), ({"superlink": "a:1"}, "without --root")])
def test_a_probe_of_nothing_is_refused(given, why):
    with pytest.raises(ConfigError, match=why):
        health(**given)
