"""Every field of Flower's classes that an app can see: bound to the masks, equal for all members, or the node's own.

A Flower with a field that is not listed here fails these tests: then decide what the app may see of it.
"""

import copy
import time
from collections.abc import Mapping

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

from f2ed.protocol.secagg.messages import AskKey
from tests.adversary.lying_server import MEMBERS, VICTIM, LyingServer, app_with, model, training_request
from tests.flower import fake_grid

BOUND, EQUAL, OWN = "bound to the masks", "equal for all members", "the node's own"
FIELDS = {
    "Message": {"_content": BOUND, "_error": EQUAL, "_metadata": EQUAL},
    "Metadata": {
        "_created_at": OWN,  # its clock
        "_delivered_at": EQUAL,
        "_dst_node_id": EQUAL,
        "_dst_task_id": EQUAL,
        "_group_id": BOUND,
        "_message_id": EQUAL,
        "_message_type": BOUND,
        "_reply_to_message_id": EQUAL,
        "_run_id": EQUAL,
        "_src_node_id": EQUAL,
        "_src_task_id": EQUAL,
        "_ttl": EQUAL,
    },
    "Context": {
        "node_config": OWN,
        "node_id": EQUAL,
        "run_config": BOUND,
        "run_id": EQUAL,
        "series_id": EQUAL,
        "state": EQUAL,
    },
    "Array": {"_is_dirty": EQUAL, "data": BOUND, "dtype": BOUND, "shape": BOUND, "stype": BOUND},
}
OTHER = {
    "_created_at": 5.0,
    "_delivered_at": "yesterday",
    "_dst_node_id": 99,
    "_dst_task_id": 98,
    "_group_id": "the victim",
    "_message_id": "another",
    "_reply_to_message_id": "a third",
    "_src_node_id": 97,
    "_src_task_id": 96,
    "_ttl": 77.0,
}
"""What the victim is told in place of the others' values; the type is tried elsewhere, and another run is refused."""


def told(value, seen=()):
    """Return all that can be read from an object, by way of its attributes and items."""
    if value is None or isinstance(value, bool | int | float | str | bytes | np.ndarray):
        return repr(value) if not isinstance(value, bytes) else value.hex()
    assert id(value) not in seen
    deeper = (*seen, id(value))
    parts = [type(value).__name__]
    if isinstance(value, Mapping):
        parts += [f"{name!r}: {told(each, deeper)}" for name, each in value.items()]
    elif isinstance(value, list | tuple):
        parts += [told(each, deeper) for each in value]
    hidden = {"_created_at", "node_config"}
    parts += [
        f".{name}={told(each, deeper)}" for name, each in getattr(value, "__dict__", {}).items() if name not in hidden
    ]
    return f"({', '.join(parts)})"


class Printing:
    """An app that prints all it sees, by client."""

    def __init__(self):
        self.seen, self.clocks = {}, []

    def __call__(self, message, context):
        client = context.node_config["partition-id"]
        self.seen[client] = told(message) + told(context)
        self.clocks.append(message.metadata.created_at)
        return 1.0


@pytest.fixture
def given():
    """Return what one training function was given, as objects."""
    found = []
    return found, lambda message, context: found.append((copy.deepcopy(message), copy.deepcopy(context))) or 1.0


def test_every_field_is_listed(tmp_path, given):
    found, rate = given
    LyingServer(tmp_path, app_with(rate)).lead(training_request(), training_request())
    message, context = found[0]
    array = message.content["arrays"]["x"]
    for value in (message, message.metadata, context, array):
        assert vars(value).keys() == FIELDS[type(value).__name__].keys()
    assert set(message.content) == {"arrays", "config"}
    assert {type(record) for record in message.content.values()} == {ArrayRecord, ConfigRecord}
    for record in (message.content, *message.content.values()):
        assert vars(record).keys() - {"_check_key_fn", "_check_value_fn", "_is_dirty"} == {"_data"}


@pytest.mark.parametrize("field", OTHER)
def test_metadata_that_only_the_victim_is_told_does_not_reach_it(tmp_path, field):
    printing = Printing()
    server = LyingServer(tmp_path, app_with(printing))
    server.lead(training_request(), training_request(), victim={field.removeprefix("_"): OTHER[field]})
    assert server.opened() is not None
    assert len(printing.seen) == MEMBERS
    assert len(set(printing.seen.values())) == 1
    assert all(abs(clock - time.time()) < 600 for clock in printing.clocks)


def test_every_field_of_the_metadata_is_tried():
    assert OTHER.keys() | {"_run_id", "_message_type"} == FIELDS["Metadata"].keys()


@pytest.mark.parametrize("field", ["node_id", "series_id", "state"])
def test_a_context_that_only_the_victim_has_does_not_reach_it(tmp_path, monkeypatch, field):
    printing = Printing()
    server = LyingServer(tmp_path, app_with(printing))

    def context(run_id, node_id, node_config, state, run_config):
        made = Context(run_id, node_id, node_config, state, run_config)
        if node_config["partition-id"] == VICTIM:
            other = {"node_id": 12345, "series_id": 9, "state": RecordDict({"left": ConfigRecord({"lr": 0.0})})}
            setattr(made, field, other[field])
        return made

    monkeypatch.setattr(fake_grid, "Context", context)
    assert server.lead(training_request(), training_request()).opened() is not None
    assert len(set(printing.seen.values())) == 1


def test_another_run_is_another_job(tmp_path, monkeypatch):
    server = LyingServer(tmp_path, app_with(Printing()))
    monkeypatch.setattr(fake_grid, "Context", lambda run_id, *rest: Context(run_id + 1, *rest))
    assert b"the server states job" in server.ask(VICTIM, AskKey(server.terms))


def array_with(values):
    return training_request(arrays=ArrayRecord({**model(), "n": Array(values)}))


@pytest.mark.parametrize(
    "request_",
    [
        training_request({"server-round": 2, "lr": 1.0}),
        training_request({"server-round": 1, "lr": 0.5}),
        array_with(np.array([3, 5])),
        array_with(np.array([3, 4], np.int32)),
        array_with(np.array([[3, 4]])),
        array_with(np.array([3, 4], ">i8")),
    ],
    ids=["the round", "a setting", "data", "dtype", "shape", "the order of bytes"],
)
def test_what_reaches_the_victim_alone_opens_nothing(tmp_path, request_):
    printing = Printing()
    server = LyingServer(tmp_path, app_with(printing)).lead(request_, training_request())
    assert len(set(printing.seen.values())) == 2
    assert server.opened() is None


def test_settings_of_the_protocol_do_not_reach_the_app(tmp_path):
    printing = Printing()
    LyingServer(tmp_path, app_with(printing)).lead(training_request(), training_request())
    assert "'f2ed" not in printing.seen[VICTIM]
    message = Message(RecordDict(), 1, "train")
    assert told(message) != told(Message(RecordDict(), 2, "train"))
