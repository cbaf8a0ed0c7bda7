"""What the server tells one member and not the others opens nothing, whatever the training function looks at.

In every attack the victim trains and its companions do not, so that a sum that opens is the victim's update.
"""

import io
import math
from collections import Counter

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from f2ed import PeerError
from f2ed.flower import protect
from f2ed.flower.wire import reply_bytes
from f2ed.protocol.secagg.messages import AskKey, SignedKey, read_reply, write
from tests.adversary.lying_server import MEMBERS, SIZE, VICTIM, LyingServer, app_with, model, secret, training_request

OTHERS = [client for client in range(MEMBERS) if client != VICTIM]


def config(name, value):
    return training_request({"server-round": 1, name: value})


def arrays(**changes):
    record = ArrayRecord({**model(), **{name: Array(values) for name, values in changes.items()}})
    return training_request(arrays=record)


def in_order(*names):
    return training_request(arrays=ArrayRecord({name: model()[name] for name in names}))


def saved(version, order="C"):
    """Return the model with the same values in other bytes."""
    values = np.zeros((2, 2), np.int64, order=order)
    stream = io.BytesIO()
    np.lib.format.write_array(stream, values, version=version)
    return only(Array("int64", (2, 2), "numpy.ndarray", stream.getvalue()), "n")


def only(array, name="x"):
    return training_request(arrays=ArrayRecord({**model(), name: array}))


def of_config(message):
    return message.content["config"]


def of_array(message):
    return message.content["arrays"]["n"]


BOUND = {
    "a learning rate": (lambda m, _: of_config(m)["lr"], config("lr", 1.0), config("lr", 0.0)),
    "a setting that only one has": (lambda m, _: "on" in of_config(m), config("on", 1), config("off", 1)),
    "bool for int": (lambda m, _: of_config(m)["k"] is True, config("k", True), config("k", 1)),
    "int for float": (lambda m, _: isinstance(of_config(m)["k"], int), config("k", 1), config("k", 1.0)),
    "minus zero": (lambda m, _: math.copysign(1, of_config(m)["k"]) < 0, config("k", -0.0), config("k", 0.0)),
    "text for bytes": (lambda m, _: isinstance(of_config(m)["k"], str), config("k", "1"), config("k", b"1")),
    "a list for a scalar": (lambda m, _: isinstance(of_config(m)["k"], list), config("k", [1]), config("k", 1)),
    "lists of equal text": (lambda m, _: of_config(m)["k"][0] == "a", config("k", ["a", "b"]), config("k", ["ab"])),
    "the round": (lambda m, _: of_config(m)["server-round"] == 2, config("server-round", 2), config("k", 1)),
    "an integer array": (lambda m, _: of_array(m).numpy()[0] == 1, arrays(n=np.array([1, 4])), arrays()),
    "the order of arrays": (lambda m, _: next(iter(m.content["arrays"])) == "n", in_order("n", "x"), arrays()),
    "an array more": (lambda m, _: len(m.content["arrays"]) == 3, arrays(more=np.array([1])), arrays()),
    "the order in memory": (lambda m, _: not of_array(m).numpy().flags.c_contiguous, saved((1, 0), "F"), saved((1, 0))),
    "the header of an array": (lambda m, _: of_array(m).data[6] == 2, saved((2, 0)), saved((1, 0))),
}
"""What the app looks at, what the victim is sent, and what the others are sent."""


@pytest.mark.parametrize("attack", BOUND)
def test_a_victim_that_is_told_something_else_is_not_opened(tmp_path, attack):
    rate, to_victim, to_others = BOUND[attack]
    server = LyingServer(tmp_path, app_with(rate)).lead(to_victim, to_others)
    assert server.app.rates == [float(client == VICTIM) for client in range(MEMBERS)]
    assert server.opened() is None
    assert server.upload(VICTIM).tag != server.upload(OTHERS[0]).tag


def test_members_that_are_told_the_same_open_their_sum(tmp_path):
    server = LyingServer(tmp_path, app_with(BOUND["a learning rate"][0]))
    total = server.lead(config("lr", 1.0), config("lr", 1.0)).opened()
    np.testing.assert_allclose(total, sum(map(secret, range(MEMBERS))), atol=1e-5)


@pytest.mark.parametrize("other", [{"lr": 0.0}, {"lr": 1}, {}, {"lr": 1.0, "more": "x"}])
def test_the_settings_of_the_run_are_bound_as_well(tmp_path, other):
    def rate(_message, context):
        return float(context.run_config == {"lr": 1.0} and isinstance(context.run_config["lr"], float))

    server = LyingServer(tmp_path, app_with(rate))
    for client in OTHERS:
        server.nodes[client].run_config = other
    assert server.lead(training_request(), training_request()).opened() is None
    assert server.app.rates == [float(client == VICTIM) for client in range(MEMBERS)]


UNSEEN = {
    "the order of settings": (
        lambda m, _: next(iter(of_config(m))) == "b",
        {}, {}, training_request({"b": 1, "a": 1}), training_request({"a": 1, "b": 1}),
    ),
    "the group": (lambda m, _: m.metadata.group_id == "one", {"group_id": "one"}, {}, None, None),
    "the time to live": (lambda m, _: m.metadata.ttl == 77.0, {"ttl": 77.0}, {}, None, None),
    "the number of the message": (lambda m, _: m.metadata.message_id == "one", {"message_id": "one"}, {}, None, None),
    "the sender": (lambda m, _: m.metadata.src_node_id == 9, {"src_node_id": 9}, {}, None, None),
    "the receiver": (lambda m, c: VICTIM + 1 in {m.metadata.dst_node_id, c.node_id}, {}, {}, None, None),
    "the sender's task": (lambda m, _: m.metadata.src_task_id == 9, {"src_task_id": 9}, {}, None, None),
    "the clock of the server": (lambda m, _: m.metadata.created_at < 2e9 - 1e9, {"created_at": 5.0}, {}, None, None),
}  # fmt: skip
"""What the app looks at, the metadata of the victim's and of the others' message, and their contents."""


@pytest.mark.parametrize("attack", UNSEEN)
def test_what_is_not_bound_is_not_seen(tmp_path, attack):
    rate, victim, others, to_victim, to_others = UNSEEN[attack]
    server = LyingServer(tmp_path, app_with(rate))
    server.lead(to_victim or training_request(), to_others or training_request(), victim=victim, others=others)
    np.testing.assert_allclose(server.opened(), 0, atol=1e-5)  # nobody trained, the victim as little as the others


def test_a_state_that_only_the_victim_has_is_not_seen(tmp_path):
    server = LyingServer(tmp_path, app_with(lambda _, context: "left" in context.state))
    server.send(VICTIM, config("lr", 1.0), "evaluate")
    assert "left" in server.nodes[VICTIM].state
    np.testing.assert_allclose(server.lead(training_request(), training_request()).opened(), 0, atol=1e-5)


def test_a_state_is_not_carried_from_message_to_message(tmp_path):
    def rate(_message, context):
        context.state["left"] = ConfigRecord({"lr": 1.0})
        return 1.0

    server = LyingServer(tmp_path, app_with(rate)).lead(training_request(), training_request())
    assert all("left" not in node.state for node in server.nodes)


def test_an_app_that_tells_all_it_sees_tells_the_same_for_all(tmp_path):
    seen = []

    def rate(message, context):
        metadata = {name: value for name, value in vars(message.metadata).items() if name != "_created_at"}
        content = [(name, type(record), list(record.items())) for name, record in message.content.items()]
        seen.append(
            repr(
                (
                    metadata,
                    content,
                    context.run_id,
                    context.node_id,
                    context.series_id,
                    context.state,
                    context.run_config,
                )
            )
        )
        return 1.0  # fmt: skip

    LyingServer(tmp_path, app_with(rate)).lead(
        training_request(), training_request(), victim={"ttl": 5.0, "group_id": "7"}
    )
    assert list(Counter(seen).values()) == [MEMBERS]
    assert "f2ed" not in seen[0]


DATA = model()["x"].data
REFUSED = {
    "a second record of arrays": (training_request(more=model()), "a ArrayRecord 'more' that the strategy"),
    "a second record of settings": (training_request(more=ConfigRecord({"lr": 1})), "a ConfigRecord 'more'"),
    "a record of metrics": (training_request(more=MetricRecord({"lr": 1})), "a MetricRecord 'more'"),
    "settings in place of the model": (training_request(arrays=ConfigRecord({"x": 1})), "a ConfigRecord 'arrays'"),
    "no number": (config("lr", math.nan), "not a number"),
    "another form": (only(Array("float32", (SIZE,), "pickle", b"")), "in the form 'pickle'"),
    "another description": (only(Array("f4", (SIZE,), "numpy.ndarray", DATA)), "both must be equal"),
    "another shape": (only(Array("float32", (SIZE, 1), "numpy.ndarray", DATA)), "both must be equal"),
    "another length": (only(Array(np.zeros(SIZE + 1, np.float32))), "coordinates take"),
}


@pytest.mark.parametrize("attack", REFUSED)
def test_what_the_strategy_does_not_send_is_refused_by_name(tmp_path, attack):
    request, words = REFUSED[attack]
    server = LyingServer(tmp_path, app_with(lambda *_: 1.0)).lead(request, training_request())
    with pytest.raises(PeerError, match=f"it refused: .*{words}"):
        server.upload(VICTIM)


@pytest.mark.parametrize("missing", ["arrays", "config"])
def test_a_request_that_lacks_a_record_is_refused(tmp_path, missing):
    request = training_request()
    del request[missing]
    server = LyingServer(tmp_path, app_with(lambda *_: 1.0)).lead(request, training_request())
    with pytest.raises(PeerError, match=f"lacks the record '{missing}'"):
        server.upload(VICTIM)


def test_another_training_function_of_the_app_cannot_be_asked_for(tmp_path):
    server = LyingServer(tmp_path, app_with(lambda m, _: of_config(m)["lr"]))
    server.lead(training_request(), training_request(), others={"kind": "train.other"})
    for client in OTHERS:
        with pytest.raises(PeerError, match=r"a request of type 'train\.other'"):
            server.upload(client)


@pytest.mark.parametrize("kind", ["get_parameters", "get_properties", "reconnect"])
def test_no_other_function_of_an_older_app_answers_in_the_clear(tmp_path, kind):
    server = LyingServer(tmp_path, app_with(lambda *_: 1.0))
    passed_on = []
    reply = protect(*server.message(VICTIM, training_request(), kind), lambda *given: passed_on.append(given))
    assert not passed_on
    assert f"a request of type '{kind}'" in reply.error.reason


def test_an_error_of_the_node_itself_is_not_quoted(tmp_path, monkeypatch, caplog):
    def fail(*_, **__):
        raise OSError("no space left on /data/patients")

    monkeypatch.setattr("f2ed.deployment.node_step.respond", fail)
    server = LyingServer(tmp_path, app_with(lambda *_: 1.0))
    reply = server.ask(VICTIM, AskKey(server.terms))
    assert b"this node failed" in reply
    assert b"patients" not in reply
    assert "/data/patients" in caplog.text


def test_a_step_without_training_carries_nothing_else(tmp_path):
    server = LyingServer(tmp_path, app_with(lambda *_: 1.0))
    with pytest.raises(PeerError, match="'arrays' that the strategy does not send at this step"):
        read_reply(SignedKey, server.ask(0, AskKey(server.terms), training_request()))
    content = RecordDict({"f2ed": ConfigRecord({"request": write(AskKey(server.terms)), "model": bytes(32), "lr": 1})})
    with pytest.raises(PeerError, match="a field 'lr' that this client does not know"):
        read_reply(SignedKey, reply_bytes(server.send(0, content)))
