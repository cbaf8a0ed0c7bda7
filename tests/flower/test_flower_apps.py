"""Apps that people already have, and what the log says of updates that do not fit."""

import time

import msgspec
import numpy as np
import pytest
from flwr.app import ConfigRecord
from flwr.client import Client, NumPyClient
from flwr.clientapp import ClientApp

from f2ed import OutageError
from f2ed.deployment.masked_metrics import MetricRule
from f2ed.deployment.roster import SignedEncoding
from f2ed.deployment.training_rules import ANYTHING
from f2ed.flower import protect
from f2ed.records import read
from tests.flower.fake_grid import change, model, moved_by, server, vector


class Legacy(NumPyClient):
    def __init__(self, client, wrong):
        self.client, self.wrong = client, wrong

    def evaluate(self, parameters, config):
        assert len(parameters) == 3
        return 0.25 * self.client, 10, {"accuracy": 0.1 * self.client + config["server-round"], "site": "north"}

    def fit(self, parameters, config):
        weight, count, bias = parameters
        step = change(self.client, config["server-round"])
        after = [weight + step[:-3].reshape(-1, 1), count, bias + step[-3:]]
        return after[: 2 if self.wrong else 3], 10 + self.client, {"loss": 0.5}


class Fitting(Client):
    """Trains, and does not evaluate."""

    def __init__(self, client, wrong):
        super().__init__()
        self.whole = Legacy(client, wrong).to_client()

    def fit(self, ins):
        return self.whole.fit(ins)


def old_app(*, wrong=False, kind=Legacy):
    return ClientApp(
        lambda context: kind(context.node_config["partition-id"], wrong).to_client(),
        mods=[protect],
    )


def test_a_numpy_client_trains_like_any_other(federation):
    grid, nodes, roster = federation()
    for node in nodes:
        node.app = old_app()
    result = server(roster).start(grid, model(), num_rounds=2)
    np.testing.assert_allclose(vector(result.arrays), moved_by([roster.assignment(0).shards] * 2), atol=3e-6)
    assert all(set(reply.content) == {"f2ed"} for reply in grid.replies), "no metric leaves"


METRICS = tuple(MetricRule(name, 0.0, 100.0) for name in ("accuracy", "loss", "num-examples"))


def test_a_numpy_client_evaluates_under_masks(federation):
    rules = msgspec.structs.replace(ANYTHING, metrics=METRICS)
    grid, nodes, roster = federation(fields={"training": rules})
    for node in nodes:
        node.app = old_app()
    result = server(roster).start(grid, model(), num_rounds=1, evaluate_config=ConfigRecord())
    found = result.evaluate_metrics_clientapp[1]
    assert dict(found) == pytest.approx({"accuracy": 1.25, "loss": 0.625, "num-examples": 10, "clients": 6}, abs=1e-3)


def test_a_numpy_client_evaluates_in_the_clear_where_the_roster_allows_it(federation):
    rules = msgspec.structs.replace(ANYTHING, messages=("train", "evaluate"))
    grid, nodes, roster = federation(fields={"training": rules, "accepted": ("evaluate",)})
    for node in nodes:
        node.app = old_app()
    result = server(roster).start(grid, model(), num_rounds=1, evaluate_config=ConfigRecord())
    assert dict(result.evaluate_metrics_clientapp[1]) == pytest.approx({"accuracy": 1.25, "loss": 0.625})


def test_a_numpy_client_that_cannot_evaluate_is_named_in_the_nodes_log(federation, caplog):
    rules = msgspec.structs.replace(ANYTHING, metrics=METRICS)
    grid, nodes, roster = federation(fields={"training": rules})
    for node in nodes:
        node.app = old_app(kind=Fitting)
    result = server(roster).start(grid, model(), num_rounds=1, evaluate_config=ConfigRecord())
    assert result.evaluate_metrics_clientapp == {}
    assert "the client's evaluate returned a status that is not OK; has the client such a function?" in caplog.text


def test_a_numpy_client_that_returns_other_arrays_is_named_in_the_nodes_log(federation, caplog):
    grid, nodes, roster = federation()
    nodes[0].app = old_app(wrong=True)
    server(roster).start(grid, model(), num_rounds=1)
    assert "the client's fit returned 2 arrays; the model has 3" in caplog.text


def test_a_key_error_of_the_app_is_the_apps_own(federation, caplog):
    def fault(_message, _context):
        raise KeyError("label")

    grid, _, roster = federation(fault=fault)
    with pytest.raises(OutageError):
        server(roster).start(grid, model(), num_rounds=1)
    assert "KeyError: 'label'" in caplog.text


def test_updates_that_were_clipped_are_in_the_log_and_in_the_record(federation, tmp_path, caplog):
    encoding = SignedEncoding(clip_value=0.005, clip_norm=0.01)
    grid, _, roster = federation(fields={"encoding": encoding})
    server(roster, records=tmp_path / "run.jsonl").start(grid, model(), num_rounds=1)
    (record,) = read(tmp_path / "run.jsonl").rounds
    assert record.shortened == 6
    assert f"CLIPPED: {record.clipped} coordinates, 6 updates" in caplog.text
    assert "6 updates were scaled down to the norm 0.01" in caplog.text


def test_coordinates_that_were_clipped_are_a_warning(federation, caplog):
    grid, _, roster = federation(fields={"encoding": SignedEncoding(clip_value=0.005)})
    leader = server(roster)
    leader.start(grid, model(), num_rounds=1)
    assert leader.records[0].clipped > 10
    assert f"{leader.records[0].clipped} coordinates were clipped at 0.005" in caplog.text
    assert "--clip-value" in caplog.text


def test_no_clipping_is_not_worth_a_word(federation, caplog):
    grid, _, roster = federation()
    server(roster).start(grid, model(), num_rounds=1)
    assert "clipped" not in caplog.text.lower()


def test_a_node_that_refuses_after_a_failure_is_recorded_as_refusing(federation):
    grid, nodes, roster = federation()
    victim = roster.assignment(0).shards[0][0]

    def fail(number, _):
        if number == 1:
            nodes[victim].node_config["f2ed-authority"] = "missing.pub"

    leader = server(roster)
    leader.start(grid, model(), num_rounds=4, evaluate_fn=fail)
    reasons = [record.dropped.get(victim, "") for record in leader.records]
    assert reasons[0] == ""
    assert "this node cannot take part" in reasons[1]
    assert reasons[2].startswith("asked again, it refused: this node cannot take part; the reason is in its own log; ")
    assert "before: round 2: upload" in reasons[2]


def test_training_that_hangs_costs_one_deadline_and_no_round_after_it(federation):
    grid, nodes, roster = federation()
    victim, hung = roster.assignment(0).shards[0][0], []

    def hang(message, reply):
        if "arrays" in message.content:
            hung.append(message)
        return None if hung else reply

    nodes[victim].tamper = hang
    leader, ended = server(roster, deadline=60.0, train_deadline=0.2, min_deadline=30.0), []
    leader.start(grid, model(), num_rounds=3, evaluate_fn=lambda *_: ended.append(time.monotonic()))
    assert ended[-1] - ended[1] < 10, "neither 30 s nor 60 s were waited for its hello"
    assert [record.dropped[victim].partition(":")[0] for record in leader.records] == ["late"] + ["silent since"] * 2
