"""The node of a helper: it carries messages, and fetches, unpacks and runs no app."""

import inspect
import time

import pytest
from flwr.app import ConfigRecord, Message
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode import start_client_internal
from flwr.supernode.nodestate import NodeStateFactory
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

from f2ed.flower import helper_node
from f2ed.flower.helper_node import Courier
from f2ed.flower.wire import reply_bytes, request_content
from f2ed.protocol.helpers.messages import Refused, decode


class SuperLink:
    """What a SuperNode is given to talk to the SuperLink: one message, and no app."""

    def __init__(self, failing=False):
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 3, 5, 1
        message = Message(request_content(ConfigRecord({"hello": bytes(32)})), 5, "train")
        message.metadata.__dict__["_message_id"] = message.object_id
        self._tree = get_object_tree(message)
        self._objects = {name: each.deflate() for name, each in get_all_nested_objects(message).items()}
        self._waiting, self._failing = [(message, self._tree)], failing
        self.confirmed, self.sent = [], []
        store = ObjectStoreFactory().store()
        self.stores = {"state": NodeStateFactory(ObjectStoreFactory()).state(), "object_store": store}

    def receive(self):
        if self._failing:
            raise ConnectionError("the SuperLink is gone")
        return self._waiting.pop() if self._waiting else None

    def pull_object(self, run, name):
        assert run == 3
        return self._objects[name]

    def take(self, courier):
        """Let the courier answer the next message."""
        return courier.answer(
            receive=self.receive,
            pull_object=self.pull_object,
            confirm_message_received=lambda run, name: self.confirmed.append((run, name)),
            get_fab=lambda *_: pytest.fail("an app was fetched"),
            get_run=lambda *_: pytest.fail("a run was asked for"),
            node_config={},
            trusted_entities=None,
            **self.stores,
        )


def test_a_message_goes_to_the_socket_and_the_reply_where_flower_looks_for_it(tmp_path, monkeypatch, caplog):
    for place, name in (
        (start_client_internal, "_pull_and_store_message"),
        (start_client_internal, "time"),
        (InMemoryNodeState, "get_message_processing_duration"),
    ):
        monkeypatch.setattr(place, name, getattr(place, name))  # It is put back afterwards.
    superlink, courier = SuperLink(), Courier(str(tmp_path / "none.sock"))
    courier.take_over()
    assert start_client_internal._pull_and_store_message == courier.answer
    assert superlink.take(courier) == 3
    caplog.clear()
    sent = []
    start_client_internal._push_messages(
        send=lambda message, _tree, seconds: sent.append((message, seconds)) or (set(), ""),
        push_object=lambda *_: None,
        **superlink.stores,
    )
    ((reply, seconds),) = sent
    assert (reply.metadata.src_node_id, reply.metadata.run_id) == (5, 3)
    assert [name for _, name in superlink.confirmed] == [reply.metadata.reply_to_message_id]
    assert seconds > 0
    assert courier.seconds(reply.metadata.reply_to_message_id) == 0
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_what_a_helper_that_is_down_answers(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(start_client_internal, "_insert_message", lambda reply, *_: kept.append(reply_bytes(reply)))
    SuperLink().take(Courier(str(tmp_path / "none.sock")))
    assert decode((Refused,), kept[0]).reason == "the helper behind this node gave no answer"


def test_a_message_that_fails_ends_nothing(tmp_path):
    superlink = SuperLink(failing=True)
    courier = Courier(str(tmp_path / "none.sock"))
    assert superlink.take(courier) is None
    assert superlink.take(courier) is None


def test_it_looks_for_messages_often_while_a_run_goes_on(monkeypatch, tmp_path):
    slept = []
    monkeypatch.setattr(helper_node.time, "sleep", slept.append)
    courier = Courier(str(tmp_path / "none.sock"))
    courier.wait(3)
    courier._last = time.monotonic()
    courier.wait(3)
    courier.wait(0.01)
    assert slept == [1.0, 0.1, 0.01]


def test_it_has_the_arguments_that_flower_gives():
    flowers = inspect.signature(start_client_internal._pull_and_store_message).parameters
    ours = inspect.signature(Courier.answer).parameters
    assert {name for name, each in ours.items() if each.kind == each.KEYWORD_ONLY} <= set(flowers)
