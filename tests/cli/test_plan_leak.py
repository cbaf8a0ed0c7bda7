import json

import pytest

from f2ed.cli.app import app
from f2ed.core.errors import ConfigError

SETTING = "plan --clients 100 --malicious 2 --shards 25 --rounds 100"


def run(line: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        app(line)
    return int(exit_.value.code or 0)


def test_it_warns_of_a_schedule_that_exposes_everyone_and_names_ones_that_do_not(capsys):
    assert run(f"{SETTING} --schedule every-round") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "determine all 100 clients individually, after 5 rounds" in shown
    assert "--schedule every-k-rounds:50" in shown


@pytest.mark.parametrize(
    ("schedule", "status"), [("every-round", 1), ("every-k-rounds:50", 0), ("fixed", 0), ("batches:2", 0)]
)
def test_strict_refuses_a_schedule_that_exposes_someone(schedule, status):
    assert run(f"{SETTING} --schedule {schedule} --strict") == status


def test_json_holds_the_forecast(capsys):
    assert run(f"{SETTING} --schedule fixed --client-dropout 0.1 --mode dropout-tolerant --json") == 0
    found = json.loads(capsys.readouterr().out)["leak"]
    assert found["exposed"] > 0
    assert "cosine" in found["text"]


def test_without_rounds_there_is_no_forecast(capsys):
    assert run("plan --clients 100 --malicious 2 --shards 25 --json") == 0
    assert "leak" not in json.loads(capsys.readouterr().out)


def test_auto_takes_the_k_of_the_forecast(capsys):
    assert run(f"{SETTING} --schedule every-k-rounds:auto --strict --json") == 0
    assert json.loads(capsys.readouterr().out)["leak"]["schedule"] == {"type": "every-k-rounds", "k": 50}


def test_where_no_k_is_safe_it_is_refused():
    with pytest.raises(ConfigError, match="no k is safe"):
        app(f"{SETTING} --schedule every-k-rounds:auto --client-dropout 0.1 --mode dropout-tolerant")


def test_batches_may_stay_in_place_for_some_rounds(capsys):
    assert run(f"{SETTING} --schedule batches:2:10 --json") == 0
    assert json.loads(capsys.readouterr().out)["leak"]["schedule"] == {"type": "batches", "size": 2, "k": 10}


@pytest.mark.parametrize(
    "schedule", ["never", "fixed:3", "every-k-rounds", "batches", "batches:0", "batches:2:0", "every-k-rounds:2:3"]
)
def test_an_unknown_schedule_is_refused(schedule):
    with pytest.raises(ConfigError, match="there is no such schedule"):
        app(f"{SETTING} --schedule {schedule}")


SAMPLED = "plan --clients 400 --malicious 2 --shards 25 --clients-per-round 100 --rounds 50"


def test_a_sample_is_planned_for_what_it_may_hold(capsys):
    assert run(f"{SAMPLED} --json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sample"]["expected"] == 0.5
    assert found["sample"]["assumed"] == found["malicious"] == 2
    assert (found["clients"], found["leak"]["clients"], found["leak"]["crowd"]) == (100, 400, 4)


def test_samples_of_single_clients_cost_their_privacy(capsys):
    assert run(f"{SAMPLED} --schedule every-round") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "100 of 400 clients in each of 50 rounds" in shown
    assert "determine all 400 clients individually" in shown
    assert "- --schedule fixed" in shown


def test_auto_is_for_rounds_in_which_everyone_takes_part():
    with pytest.raises(ConfigError, match="every-k-rounds:auto with --clients-per-round"):
        app(f"{SAMPLED} --schedule every-k-rounds:auto", exit_on_error=False)
