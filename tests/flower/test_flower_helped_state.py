"""What a node with helpers keeps from round to round: its mark, its log, the app's state and its own buffers."""

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from msgspec.structs import replace

from f2ed.deployment.training_rules import TrainingRules
from f2ed.deployment.transparency.lines import Began, Refused, Uploaded, read_line
from f2ed.flower import protect
from f2ed.protocol.aggregation import Buffers
from f2ed.protocol.helpers import messages
from f2ed.protocol.primitives.hybrid import HYBRID
from tests.flower.fake_grid import change, trained
from tests.flower.helped_nodes import SETTINGS, HelpedNodes


@pytest.fixture
def heard(tmp_path):
    """Return nodes after a round, and what the first client was asked in it."""
    it, asked = HelpedNodes(tmp_path), []
    true = it.ask
    it.ask = lambda party, *given: asked.append(given) or true(party, *given) if party == 0 else true(party, *given)
    assert it.run().mean is not None
    it.ask = true
    return it, asked[0]


def logged(folder):
    (path,) = folder.glob("client_0.state/*.log")
    return [read_line(line).data for line in path.read_bytes().splitlines()]


def test_the_kept_state_refuses_a_second_answer_even_if_the_mark_of_rounds_is_lost(heard, tmp_path):
    """Two answers to one round would give the update away: their difference holds no mask."""
    it, given = heard
    for path in tmp_path.glob("client_0.state/*.rounds"):
        path.unlink()
    reason = messages.decode((messages.Refused,), it.ask(0, *given)).reason
    assert "epoch and round (0, 0) are not after (0, 0), which was begun" in reason


def test_the_log_tells_a_refusal_from_an_upload(heard, tmp_path):
    it, given = heard
    before = logged(tmp_path)
    assert [type(event) for event in before[-2:]] == [Began, Uploaded]
    for path in tmp_path.glob("client_0.state/*.rounds"):
        path.unlink()
    it.ask(0, *given)
    (refused,) = logged(tmp_path)[len(before) :]
    assert isinstance(refused, Refused)
    assert "which was begun" in refused.reason


def test_hybrid_keys_protect_what_a_client_sends(tmp_path):
    outcome = HelpedNodes(tmp_path, settings=replace(SETTINGS, agreement=HYBRID)).run()
    assert outcome.aborted is None
    wanted = np.mean([change(client, 1) for client in range(6)], axis=0)
    np.testing.assert_allclose(outcome.mean, wanted, atol=2.0**-20)


def remembering(seen):
    """Return an app that counts its rounds in the node's state."""
    app = ClientApp(mods=[protect])

    @app.train()
    def train(message, context):
        before = context.state.config_records.get("mine", ConfigRecord({"rounds": 0}))["rounds"]
        seen.append((context.node_config["partition-id"], before))
        context.state["mine"] = ConfigRecord({"rounds": before + 1})
        after = trained(message.content["arrays"], change(context.node_config["partition-id"], 1))
        return Message(RecordDict({"arrays": after}), reply_to=message)

    return app


@pytest.mark.parametrize("stateful", [True, False])
def test_an_app_has_a_state_where_the_roster_accepts_one(tmp_path, stateful):
    seen = []
    fields = {"training": TrainingRules(stateful=True), "accepted": ("stateful",)} if stateful else {}
    it = HelpedNodes(tmp_path, fields, client_app=remembering(seen))
    it.run(0, round_=1)
    it.run(1, round_=2)
    assert sorted(seen[6:]) == [(client, int(stateful)) for client in range(6)]


def test_buffers_that_stay_on_the_node_are_those_of_the_node(tmp_path):
    """The server sends its own buffers in every round; training goes on from those that the node kept."""
    seen = []
    app = ClientApp(mods=[protect])

    @app.train()
    def train(message, context):
        arrays, client = message.content["arrays"], context.node_config["partition-id"]
        seen.append((client, arrays["bias"].numpy().tolist()))
        return Message(RecordDict({"arrays": trained(arrays, change(client, 1))}), reply_to=message)

    fields = {"buffers": Buffers(policy="local", names=("bias",)), "accepted": ("stateful",)}
    it = HelpedNodes(tmp_path, fields, client_app=app)
    it.run(0, round_=1, coordinates=23)
    it.run(1, round_=2, coordinates=23)
    first, second = dict(seen[:6]), dict(seen[6:])
    assert len({tuple(values) for values in first.values()}) == 1
    assert len({tuple(values) for values in second.values()}) == 6
