"""Buffers in a deployment: averaged on their own, kept by the server, or left on each node, as the roster says."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdam

from f2ed import ConfigError
from f2ed.deployment.agent import Agent
from f2ed.deployment.roster import read_roster
from f2ed.flower import protect
from f2ed.flower.arrays import moved, update_plan
from f2ed.flower.handover import clean_context, kept_state
from f2ed.protocol.aggregation import ArrayClip, Buffers
from tests.flower.fake_grid import change, real_roster, server

TRAINED = ("weight", "bias")


def normalized():
    """Return a model as torch writes one with a batch normalization: its statistics between the weights."""
    return ArrayRecord(
        {
            "weight": Array(np.linspace(-1, 1, 4, dtype=np.float32)),
            "bn.running_mean": Array(np.zeros(2, np.float32)),
            "bn.running_var": Array(np.ones(2, np.float32)),
            "bn.num_batches_tracked": Array(np.array(0)),
            "bias": Array(np.zeros(3, np.float32)),
        }
    )


def statistics(client):
    return np.array([5.0 + client, -3.0], np.float32), np.array([4.0, 6.0 + client], np.float32)


def step_of(client, round_):
    return np.split(change(client, round_, 7), [4])


def app(seen=None):
    """Return an app whose statistics move halfway to those of the client's data in each round."""
    app = ClientApp(mods=[protect])

    @app.train()
    def train(message, context):
        client, round_ = context.node_config["partition-id"], message.content["config"]["server-round"]
        before = {name: array.numpy() for name, array in message.content["arrays"].items()}
        if seen is not None:
            seen.append((client, round_, before["bn.running_mean"].copy()))
        weight, bias = step_of(client, round_)
        mean, var = statistics(client)
        after = {
            "weight": before["weight"] + weight,
            "bn.running_mean": (before["bn.running_mean"] + mean) / 2,
            "bn.running_var": (before["bn.running_var"] + var) / 2,
            "bn.num_batches_tracked": before["bn.num_batches_tracked"] + 1,
            "bias": before["bias"] + bias,
        }
        arrays = ArrayRecord({name: Array(np.asarray(values)) for name, values in after.items()})
        return Message(RecordDict({"arrays": arrays}), reply_to=message)

    return app


def led(federation, fields, *, rounds=2, seen=None, **settings):
    grid, nodes, roster = federation(fields=fields)
    for node in nodes:
        node.app = app(seen)
    leader = server(roster, **settings)
    result = leader.start(grid, normalized(), num_rounds=rounds)
    return leader, {name: array.numpy() for name, array in result.arrays.items()}, nodes


def trained_after(rounds):
    moved = [np.mean([change(client, round_, 7) for client in range(6)], 0) for round_ in range(1, rounds + 1)]
    start = np.concatenate([normalized()[name].numpy() for name in TRAINED])
    return start + np.sum(moved, 0)


def trained(model):
    return np.concatenate([model[name] for name in TRAINED])


def test_statistics_are_averaged_with_a_clip_of_their_own(federation):
    leader, model, _ = led(federation, {"buffers": Buffers()})
    assert [each.clipped for each in leader.records] == [0, 0]
    np.testing.assert_allclose(model["bn.running_mean"], np.array([7.5, -3.0]) * 0.75, atol=1e-4)
    np.testing.assert_allclose(model["bn.running_var"], 1 + (np.array([4.0, 8.5]) - 1) * 0.75, atol=1e-4)
    np.testing.assert_allclose(trained(model), trained_after(2), atol=3e-6)
    assert model["bn.num_batches_tracked"] == 0


def test_without_a_rule_they_are_damaged_and_the_log_says_so(federation, caplog):
    leader, model, _ = led(federation, {})
    assert "the model has 2 buffers (bn.running_mean …), and the roster has no rule for them" in caplog.text
    assert leader.records[0].clipped > 10
    assert model["bn.running_mean"][0] == pytest.approx(2.0, abs=1e-3), "far from 5.6"


def test_the_server_may_keep_its_own_and_fewer_words_travel(federation):
    leader, model, _ = led(federation, {"buffers": Buffers(policy="keep")})
    np.testing.assert_array_equal(model["bn.running_mean"], [0, 0])
    np.testing.assert_allclose(trained(model), trained_after(2), atol=3e-6)
    assert leader.records[0].clipped == 0


def test_each_node_may_keep_its_own(federation):
    seen = []
    rules = {"buffers": Buffers(policy="local"), "accepted": ("stateful",)}
    _, model, nodes = led(federation, rules, rounds=3, seen=seen)
    np.testing.assert_array_equal(model["bn.running_mean"], [0, 0])
    np.testing.assert_allclose(trained(model), trained_after(3), atol=4e-6)
    for client, round_, mean in seen:
        np.testing.assert_allclose(mean, statistics(client)[0] * (1 - 0.5 ** (round_ - 1)), rtol=1e-6)
    kept = nodes[2].state.array_records["f2ed-buffers"]
    assert set(kept) == {"bn.running_mean", "bn.running_var"}


@pytest.fixture
def place():
    folder = Path(tempfile.mkdtemp(prefix="f2ed-test-"))  # A socket's path is short.
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("policy", ["average", "local"])
def test_the_rules_hold_where_an_agent_has_the_key(federation, place, policy):
    rules = {"buffers": Buffers(policy=policy, clips=(ArrayClip("bias", 0.5),)), "accepted": ("stateful",)}
    grid, nodes, roster = federation(fields=rules)
    for client, node in enumerate(nodes):
        ours = {name: value for name, value in node.node_config.items() if name.startswith("f2ed-")}
        Agent(ours, {7: bytes(32)}.get, uid=os.geteuid()).listen(place / str(client))
        node.node_config = {"partition-id": client, "f2ed-agent": str(place / str(client))}
        node.app = app()
    leader = server(roster)
    arrays = leader.start(grid, normalized(), num_rounds=2).arrays
    model = {name: array.numpy() for name, array in arrays.items()}
    np.testing.assert_allclose(trained(model), trained_after(2), atol=4e-6)
    expected = np.array([7.5, -3.0]) * 0.75 if policy == "average" else [0, 0]
    np.testing.assert_allclose(model["bn.running_mean"], expected, atol=1e-4)
    assert ("f2ed-buffers" in nodes[0].state) == (policy == "local")


def test_what_a_node_keeps_is_neither_shown_to_an_app_nor_lost_with_the_apps_own_state():
    state = RecordDict({"f2ed-buffers": normalized(), "mine": normalized()})
    context = Context(1, 2, {}, state, {})
    shown = clean_context(context, stateful=True)
    assert set(shown.state) == {"mine"}
    shown.state["f2ed-buffers"] = ArrayRecord({"bias": Array(np.zeros(3))})
    assert set(kept_state(context, shown)["f2ed-buffers"]) == set(normalized())


def test_buffers_on_the_nodes_are_a_state_whose_risk_must_be_accepted(tmp_path):
    with pytest.raises(ValueError, match="sign with --accept stateful"):
        real_roster(tmp_path, 6, shards=2, fields={"buffers": Buffers(policy="local")})


def test_an_array_has_the_clip_that_was_signed_for_it(federation, caplog):
    clips = (ArrayClip("bias", 0.001),)
    leader, model, _ = led(federation, {"buffers": Buffers(clips=clips)}, rounds=1)
    assert leader.records[0].clipped > 0
    assert np.abs(model["bias"]).max() <= 0.001 + 1e-6
    np.testing.assert_allclose(model["weight"], trained_after(1)[:4], atol=3e-6)
    assert "coordinates were clipped" in caplog.text


def test_a_strategy_inside_moves_the_weights_and_leaves_the_statistics_alone(federation):
    _, model, _ = led(federation, {"buffers": Buffers()}, inner=FedAdam(eta=0.1))
    np.testing.assert_allclose(model["bn.running_var"], 1 + (np.array([4.0, 8.5]) - 1) * 0.75, atol=1e-4)
    assert np.abs(trained(model) - trained_after(2)).max() > 0.05


def test_a_roster_without_the_rule_keeps_its_digest(federation, tmp_path):
    _, _, roster = federation()
    assert "buffers" not in json.loads((tmp_path / "roster.json").read_text())
    assert read_roster(tmp_path / "roster.json").digest == roster.digest
    assert roster.array_rules is None


def test_a_model_of_buffers_alone_is_refused_at_the_start(federation):
    grid, _, roster = federation(fields={"buffers": Buffers(names=("*",))})
    with pytest.raises(ConfigError, match="nothing to average"):
        server(roster).start(grid, normalized(), num_rounds=1)
    assert not grid.sent


def test_a_variance_never_becomes_negative():
    arrays = normalized()
    plan = update_plan(arrays, Buffers(), clip_value=1.0)
    after = moved(arrays, np.full(plan.coordinates, -1.5, np.float32), plan)
    np.testing.assert_array_equal(after["bn.running_var"].numpy(), [0, 0])
    np.testing.assert_array_equal(after["bn.running_mean"].numpy(), [-1.5, -1.5])
