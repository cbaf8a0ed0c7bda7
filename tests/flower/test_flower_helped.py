"""Clients answer with one message under a roster with helpers: trained, checked, stored, and never twice."""

import msgspec
import numpy as np
import pytest
from flwr.app import ConfigRecord, Message

from f2ed.deployment.transparency.lines import Began, Uploaded, read_line
from f2ed.flower.wire import reply_bytes, request_content
from f2ed.protocol.aggregation import Buffers
from f2ed.protocol.helpers.messages import Refused, decode, write
from f2ed.protocol.helpers.requests import AskUpload
from tests.flower.fake_grid import change, model
from tests.flower.helped_nodes import RUN, HelpedNodes

STEP = 2.0**-20
"""One integer step at a clip norm of 1."""


def test_a_round_of_nodes_gives_the_mean_of_what_they_trained(tmp_path):
    it = HelpedNodes(tmp_path)
    for number in (0, 1):
        outcome = it.run(number, round_=number + 1)
        assert outcome.aborted is None
        assert outcome.kept == tuple(range(6))
        wanted = np.mean([change(client, number + 1) for client in range(6)], axis=0)
        np.testing.assert_allclose(outcome.mean, wanted, atol=STEP)


def test_a_client_that_drops_out_takes_its_group_out_of_the_sum(tmp_path):
    it = HelpedNodes(tmp_path)
    gone = it.roster.groups[0].members[0]
    true = it.ask
    it.ask = lambda party, *given: b"" if party == gone else true(party, *given)
    outcome = it.run()
    assert outcome.kept == it.roster.groups[1].members
    assert gone in outcome.dropped


def test_a_training_that_fails_is_not_visible_to_the_server(tmp_path):
    def fault(_message, context):
        if context.node_config["partition-id"] == 2:
            raise RuntimeError("private")

    outcome = HelpedNodes(tmp_path, fault=fault).run()
    assert outcome.dropped == {}
    assert outcome.clients == tuple(range(6))


def test_a_round_is_answered_once_in_all_runs(tmp_path):
    it, asked = HelpedNodes(tmp_path), []
    true = it.ask
    it.ask = lambda party, *given: asked.append((party, given)) or true(party, *given)
    assert it.run().mean is not None
    party, given = next(each for each in asked if each[0] == 0)
    assert "round 0 is not after round 0" in decode((Refused,), true(party, *given)).reason


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"crowd": 4}, "in crowd;"), ({"clip_norm": 5.0}, "in clip_norm;"), ({"coordinates": 25}, "25 coordinates")],
)
def test_other_terms_are_refused_by_each_client(tmp_path, changes, said):
    """Coordinates are no part of the roster: they are those of the model that came along."""
    it = HelpedNodes(tmp_path)
    request = lied_upload(it, changes)
    reply = it.ask(0, request, model(), ConfigRecord({"server-round": 1}))
    assert said in decode((Refused,), reply).reason


def lied_upload(it, changes):
    """Return the request for an upload of a round on true terms, with other terms in it."""
    seen, true = [], it.ask

    def listen(party, request, *given):
        if party == 0:
            seen.append(request)
            return b""
        return true(party, request, *given)

    it.ask = listen
    it.run()
    it.ask = true
    asked = decode((AskUpload,), seen[0])
    return write(AskUpload(msgspec.structs.replace(asked.terms, **changes), asked.openings))


def test_a_shard_step_and_a_request_without_a_model_are_refused(tmp_path):
    it = HelpedNodes(tmp_path)
    place = it.places[0]
    for content, said in (
        (request_content(ConfigRecord({"request": b"x"})), "lacks the record"),
        (
            request_content(ConfigRecord({"request": b"x"}), arrays=model(), config=ConfigRecord({"server-round": 1})),
            "cannot be read",
        ),
    ):
        reply = it.grid.nodes[place].answer(place, RUN, Message(content, place, "train"))
        assert said in decode((Refused,), reply_bytes(reply)).reason


def test_a_node_that_demands_noise_takes_no_part(tmp_path):
    it = HelpedNodes(tmp_path)
    it.clients[1].node_config["f2ed-noise-multiplier"] = 1.0
    assert "carry none" in it.run().dropped[1]


def test_buffers_in_the_sum_are_refused(tmp_path):
    it = HelpedNodes(tmp_path, fields={"buffers": Buffers(policy="average", names=("bias",))})
    assert "judged together" in it.run().dropped[0]


def test_the_log_of_a_node_names_the_round(tmp_path):
    it = HelpedNodes(tmp_path)
    it.run()
    (path,) = tmp_path.glob("client_0.state/*.log")
    events = [read_line(line).data for line in path.read_bytes().splitlines()]
    assert [type(event) for event in events][-2:] == [Began, Uploaded]
    assert events[-1].round == 0
