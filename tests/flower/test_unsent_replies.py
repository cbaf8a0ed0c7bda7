"""A SuperNode answers each message in its turn, also after a run that ended while it pulled a message."""

import time

import pytest

pytest.importorskip("flwr")
from flwr.app import Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import Status
from flwr.supercore.constant import TaskType
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supernode import start_client_internal
from flwr.supernode.nodestate import NodeStateFactory

from f2ed.flower.unsent_replies import answering_all, catch_up, dropping_ignored

STORES = ObjectStoreFactory()


@pytest.fixture
def state():
    state = NodeStateFactory(objectstore_factory=STORES).state()
    state.set_node_id(1)
    return state


def message_of(run):
    message = make_message(Metadata(run, "", 1, 1, "", str(run), time.time(), 60.0, "train"), RecordDict())
    message.metadata.__dict__["_message_id"] = message.object_id
    return message


def answer(state, message):
    """Store a reply, as an app's process does."""
    reply = Message(RecordDict(), reply_to=message)
    start_client_internal._insert_message(reply, state, STORES.store())
    return reply


def sent(state):
    """Send the replies that are there, as Flower does."""
    for reply in state.get_messages_legacy(is_reply=True):
        state.delete_messages(message_ids=[reply.metadata.message_id, reply.metadata.reply_to_message_id])


def test_a_message_that_was_ignored_is_not_answered_and_its_task_ends(state):
    def ignored(state):
        state.store_message(message_of(7))

    pull = dropping_ignored(ignored)
    mine = state.create_task(task_type=TaskType.CLIENT_APP, run_id=7, fab_hash="a")
    other = state.create_task(task_type=TaskType.CLIENT_APP, run_id=8, fab_hash="a")
    assert pull(state) is None
    assert not state.msg_store
    statuses = {task.task_id: task.status.status for task in state.get_tasks()}
    assert statuses == {mine: Status.FINISHED, other: Status.PENDING}


def test_the_reply_of_a_message_before_does_not_take_the_turn_of_the_next(state):
    answer(state, message_of(7))  # Of a run that has ended.
    asked, pushes = message_of(8), []
    state.store_message(asked)

    def push(state):
        if pushes:  # The app has taken its time.
            answer(state, asked)
        pushes.append(1)
        sent(state)

    answering_all(push)(state)
    assert len(pushes) == 2
    assert not state.msg_store


def test_flower_itself_keeps_a_message_whose_run_ended_while_it_was_confirmed(state):
    message = message_of(7)
    parts = get_all_nested_objects(message)
    state.store_run(Run.create_empty(7))

    def ended(_run, _message):
        raise start_client_internal.RunNotRunningException

    def pull():
        found = (message, get_object_tree(message))
        return start_client_internal._pull_and_store_message(
            state, STORES.store(), {}, lambda: found, None, None, lambda _, name: parts[name].deflate(), ended, None
        )

    assert pull() is None
    assert state.msg_store, "if this fails, Flower has mended it"
    catch_up()
    assert pull() is None
    assert not state.msg_store
