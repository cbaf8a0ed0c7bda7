"""A SuperNode that owes the reply of a run that ended sends it before it waits for more."""

import time

import pytest

pytest.importorskip("flwr")
from flwr.app import Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supernode import start_client_internal
from flwr.supernode.nodestate import NodeStateFactory

from f2ed.flower.unsent_replies import catch_up, pulls_after


@pytest.fixture
def state():
    return NodeStateFactory(objectstore_factory=ObjectStoreFactory()).state()


def message_of(run):
    message = make_message(Metadata(run, "", 1, 1, "", "", time.time(), 60.0, "train"), RecordDict())
    message.metadata.__dict__["_message_id"] = message.object_id
    return message


def test_a_message_that_is_not_answered_yet_gets_its_turn_although_none_was_pulled(state):
    pull = pulls_after(lambda _state, **_: None)
    assert pull(state, receive=None) is None
    asked = message_of(7)
    state.store_message(asked)
    assert pull(state, receive=None) == 7
    reply = Message(RecordDict(), reply_to=asked)
    reply.metadata.__dict__["_message_id"] = reply.object_id
    state.store_message(reply)
    assert pull(state, receive=None) == 7
    # As Flower does once it is sent.
    state.delete_messages(message_ids=[asked.metadata.message_id, reply.metadata.message_id])
    assert pull(state, receive=None) is None


def test_what_is_pulled_comes_first(state):
    state.store_message(message_of(7))
    assert pulls_after(lambda _state: 8)(state) == 8


def test_flower_sends_every_reply_once_it_owes_none(state, monkeypatch):
    """The loop of Flower itself: a run ends while its message is confirmed, and the next run's is answered in time."""
    plain = start_client_internal._pull_and_store_message
    monkeypatch.setattr(start_client_internal, "_pull_and_store_message", plain)
    catch_up()
    asked = message_of(7)

    def pulls_nothing():
        state.store_message(asked)

    found = start_client_internal._pull_and_store_message(state, None, {}, pulls_nothing, None, None, None, None, None)
    assert found == 7
