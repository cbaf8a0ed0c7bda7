"""Metrics of clients under masks: the server learns shard means, and a node sends what the authority named."""

import os
import socket

import msgspec
import numpy as np
import pytest
from flwr.app import ConfigRecord, Message

from f2ed.core.errors import ConfigError, OutageError
from f2ed.deployment.agent import Agent
from f2ed.deployment.masked_metrics import MetricRule
from f2ed.deployment.training_rules import ANYTHING
from f2ed.flower.analytics import histogram
from f2ed.flower.wire import reply_bytes, request_content
from f2ed.protocol.secagg.messages import Refused, decode
from f2ed.records import read
from tests.flower.fake_grid import model, moved_by, server, silence, vector

RULES = (
    MetricRule("accuracy", 0.0, 1.0),
    MetricRule("ages", 0.0, 100.0, 3),
    MetricRule("examples", 0.0, 1000.0),
)
NAMED = {"training": msgspec.structs.replace(ANYTHING, metrics=RULES)}
TOLERANCE = 1e-4


def measure(client, round_):
    return {
        "accuracy": 0.5 + 0.05 * client,
        "examples": 100 * client + round_,
        "ages": [1.0 * client, 2.0 * client, 500.0],  # The last one is beyond its end.
        "diagnosis": 7,  # Not named by the authority.
    }


def evaluated(leader, grid, rounds=2, **settings):
    return leader.start(grid, model(), num_rounds=rounds, evaluate_config=ConfigRecord(settings))


def test_the_means_over_all_clients_come_out_and_no_other_metric(federation, tmp_path):
    grid, _, roster = federation(fields=NAMED, measure=measure)
    result = evaluated(server(roster, records=tmp_path / "run.jsonl"), grid)
    for round_ in (1, 2):
        found = result.evaluate_metrics_clientapp[round_]
        assert found.keys() == {"accuracy", "ages", "examples", "clients"}
        assert found["clients"] == 6
        assert found["accuracy"] == pytest.approx(0.625, abs=TOLERANCE)
        assert found["examples"] == pytest.approx(250 + round_, abs=1000 * TOLERANCE)
        assert found["ages"] == pytest.approx([2.5, 5.0, 100.0], abs=100 * TOLERANCE)
    records = read(tmp_path / "run.jsonl").rounds
    assert [each.deployed.measured["accuracy"] for each in records] == pytest.approx([0.625] * 2, abs=TOLERANCE)
    # Evaluations have numbers of their own.
    assert [each.deployed.number for each in records] == [0, 2]


def test_the_model_is_that_of_a_run_without_evaluation(federation):
    grid, _, roster = federation(fields=NAMED, measure=measure)
    arrays = evaluated(server(roster), grid).arrays
    expected = moved_by([roster.assignment(0).shards] * 2)
    assert np.allclose(vector(arrays), expected, atol=1e-5)


def test_no_reply_holds_a_metric_in_the_clear(federation):
    grid, _, roster = federation(
        fields=NAMED, measure=lambda *_: {"accuracy": 0.123456, "examples": 77, "ages": [1.0] * 3}
    )
    evaluated(server(roster), grid, rounds=1)
    replies = [reply for reply in grid.replies if reply.metadata.message_type == "evaluate"]
    assert len(replies) == 6
    assert all(not reply.content.metric_records and list(reply.content) == ["f2ed"] for reply in replies)
    uploads = [reply_bytes(reply) for reply in replies]
    assert len(set(uploads)) == 6  # Equal metrics, and nothing alike.


def test_without_evaluate_config_nobody_is_asked(federation):
    grid, _, roster = federation(fields=NAMED, measure=measure)
    result = server(roster).start(grid, model(), num_rounds=1)
    assert result.evaluate_metrics_clientapp == {}
    assert {message.metadata.message_type for message in grid.sent} == {"train"}


def test_a_shard_with_a_silent_member_is_left_out_of_the_means(federation, caplog):
    grid, nodes, roster = federation(fields=NAMED, measure=measure)
    one, other = roster.assignment(0).shards

    def silent_when_evaluating(message, reply):
        return silence(message, reply) if message.metadata.message_type == "evaluate" else reply

    nodes[one[0]].tamper = silent_when_evaluating
    found = evaluated(server(roster), grid, rounds=1).evaluate_metrics_clientapp[1]
    assert found["clients"] == 3
    assert found["accuracy"] == pytest.approx(np.mean([0.5 + 0.05 * client for client in other]), abs=TOLERANCE)
    nodes[other[0]].tamper = silent_when_evaluating
    grid, nodes, roster = federation(fields=NAMED, run_id=8, measure=measure)
    for shard in (one, other):
        nodes[shard[0]].tamper = silent_when_evaluating
    assert evaluated(server(roster), grid, rounds=1).evaluate_metrics_clientapp == {}
    assert "no shard opened for the evaluation after round 1" in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"accuracy": 0.5},
        {"accuracy": float("nan"), "examples": 1, "ages": [1.0] * 3},
        {"accuracy": 0.5, "examples": 1, "ages": [1.0] * 4},
        {"accuracy": [0.5], "examples": 1, "ages": [1.0] * 3},
    ],
)
def test_metrics_that_are_missing_or_wrong_close_the_shard_and_say_nothing(federation, wrong, caplog):
    grid, nodes, roster = federation(fields=NAMED, measure=measure)
    one, _ = roster.assignment(0).shards
    nodes[one[0]].app = federation(fields=NAMED, measure=lambda *_: wrong)[1][0].app
    found = evaluated(server(roster), grid, rounds=1).evaluate_metrics_clientapp[1]
    assert found["clients"] == 3
    assert "training failed, so random words leave" in caplog.text


def test_a_node_whose_roster_names_no_metrics_refuses_to_evaluate(federation):
    _, nodes, _ = federation(measure=measure)
    grid, _, _ = federation(fields=NAMED, measure=measure)

    content = request_content(
        ConfigRecord({"request": b"x", "model": bytes(32)}), arrays=model(), config=ConfigRecord()
    )
    node_id = next(iter(grid.nodes))
    reply = nodes[0].answer(node_id, 7, Message(content, node_id, "evaluate"))
    (refused,) = [decode((Refused,), reply_bytes(reply))]
    assert "the roster names no metrics; the authority allows some with f2ed roster sign --metric" in refused.reason


def test_a_run_that_was_cut_off_after_an_evaluation_goes_on(federation, tmp_path):
    given = {"records": tmp_path / "run.jsonl", "checkpoint": tmp_path / "model.checkpoint"}
    grid, _, roster = federation(fields=NAMED, measure=measure)
    evaluated(server(roster, **given), grid, rounds=1)
    grid, _, roster = federation(fields=NAMED, run_id=8, measure=measure)
    evaluated(server(roster, **given), grid, rounds=3)
    assert [each.deployed.number for each in read(tmp_path / "run.jsonl").rounds] == [0, 2, 4]


def test_a_setting_that_no_rule_allows_is_not_sent(federation):
    rules = msgspec.structs.replace(NAMED["training"], any_setting=False)
    grid, _, roster = federation(fields={"training": rules}, measure=measure)
    with pytest.raises(ConfigError, match=r"the clients would refuse .* 'batch' is not in the roster's rules"):
        evaluated(server(roster), grid, rounds=1, batch=5)
    assert grid.sent == []


def test_analytics_need_no_model_and_pin_none(federation):
    edges = [0, 2, 4, 6]

    def count(client, _round):
        return {"accuracy": 0.0, "examples": 10.0, "ages": histogram([client, client + 0.5], edges)}

    grid, _, roster = federation(fields=NAMED, measure=count)
    found = server(roster).measure(grid)
    assert found.total("examples") == pytest.approx(60, abs=6000 * TOLERANCE)
    assert found.total("ages") == pytest.approx([4, 4, 4], abs=600 * TOLERANCE)
    assert sorted(found.shards) == [0, 1]
    assert found.clients == {0: 3, 1: 3}
    # A training may follow, with any model that the roster allows.
    grid, _, roster = federation(fields=NAMED, run_id=8, measure=count)
    assert server(roster).start(grid, model(), num_rounds=1).arrays


def test_analytics_without_metrics_or_with_files_are_refused(federation, tmp_path):
    grid, _, roster = federation(measure=measure)
    with pytest.raises(ConfigError, match="the roster names no metrics"):
        server(roster).measure(grid)
    with pytest.raises(ConfigError, match="keeps neither checkpoint nor records"):
        server(roster, records=tmp_path / "run.jsonl").measure(grid)


def test_analytics_that_nobody_answers_end_with_an_error(federation):
    grid, nodes, roster = federation(fields=NAMED, measure=measure)
    for node in nodes:
        node.tamper = lambda message, reply: None if message.metadata.message_type == "evaluate" else reply
    with pytest.raises(OutageError, match="no shard opened, so nothing was measured"):
        server(roster).measure(grid)


@pytest.mark.parametrize("edges", [[], [1], [2, 1], [1, 1]])
def test_edges_that_make_no_bins_are_refused(edges):
    with pytest.raises(ConfigError, match="make no bins"):
        histogram([1.0], edges)


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="needs Linux")
def test_metrics_go_through_the_nodes_agents_which_cut_them_at_their_ends(federation, tmp_path):
    grid, nodes, roster = federation(
        fields=NAMED, measure=lambda *_: {"accuracy": 7.0, "examples": 1.0, "ages": [2.0] * 3}
    )
    for node in nodes:
        path = tmp_path / f"agent_{node.partition}"
        settings = {name: value for name, value in node.node_config.items() if name.startswith("f2ed-")}
        Agent(settings, lambda _: bytes(32), uid=os.geteuid()).listen(path)
        node.node_config = {"partition-id": node.partition, "f2ed-agent": str(path)}
    found = server(roster, deadline=5.0, train_deadline=5.0).measure(grid)
    assert found.mean("accuracy") == pytest.approx(1.0, abs=TOLERANCE)
    assert found.mean("ages") == pytest.approx([2.0] * 3, abs=100 * TOLERANCE)
