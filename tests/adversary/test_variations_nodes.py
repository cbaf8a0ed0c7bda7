"""Variations against one node's state and input: rollback, two messages at once, mixed runs, odd values.

Nodes are real: `protect`, key files, state files and a signed roster.
"""

import shutil
import threading

import msgspec
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from f2ed import PeerError
from f2ed.deployment.hello import Hello
from f2ed.protocol.secagg import Refused
from f2ed.protocol.secagg.messages import AskKey, AskUpload, SignedKey, Upload, decode, read_reply, write
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Advertisement, Invite
from tests.adversary.lying_server import MEMBERS, VICTIM, app_with, model, training_request
from tests.adversary.lying_server import LyingServer as InputServer
from tests.flower.lying_server import RUN, LyingServer
from tests.protocol.secagg.agree import agree


def agreed(server, run, round_=0):
    """Agree on keys in a run, and return the request for uploads."""
    terms = server.terms(round_, run=run)
    keys = agree(terms, server.roster.keys, lambda *asked: server._reply(*asked, run=run), server.refusals)
    return AskUpload(terms, *keys)


def test_one_round_asked_in_two_runs_at_once_is_answered_once(tmp_path):
    """Both requests pass the first check and train at the same time; the mark is raised once."""
    both = threading.Barrier(2)
    server = LyingServer(tmp_path, 4, fault=lambda *_: both.wait(timeout=20))
    asks = {run: agreed(server, run) for run in (RUN, RUN + 1)}
    replies = {}

    def ask(run):
        replies[run] = server._reply(VICTIM, asks[run], run=run)

    threads = [threading.Thread(target=ask, args=(run,)) for run in asks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    kinds = [type(decode((Upload, Refused), reply, payload=10**6)) for reply in replies.values()]
    assert sorted(kind.__name__ for kind in kinds) == ["Refused", "Upload"]


def test_one_request_sent_twice_at_once_is_answered_once(tmp_path):
    server = LyingServer(tmp_path, 4)
    ask, replies = agreed(server, RUN), []
    threads = [threading.Thread(target=lambda: replies.append(server._reply(VICTIM, ask))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    kinds = [type(decode((Upload, Refused), reply, payload=10**6)).__name__ for reply in replies]
    assert sorted(kinds) == ["Refused", "Refused", "Upload"]


@pytest.mark.parametrize("run", [RUN, RUN + 1])
def test_a_mark_restored_from_a_backup_opens_no_second_upload(tmp_path, run):
    """The victim's disk goes back to before the round, its keys in memory do not; its companions stay as they are."""
    server = LyingServer(tmp_path, 4)
    mark = tmp_path / f"client_{VICTIM}.state" / f"{server.roster.lineage}.rounds"
    first = server.all_or_nothing(server.terms())
    assert mark.exists()
    mark.unlink()
    again = server.all_or_nothing(server.terms(run=run), run=run)
    assert len(first) == 4
    assert not again


def test_three_runs_at_once_forget_keys_and_never_a_round(tmp_path):
    """A node keeps the keys of two jobs; the state of the first, with its mark, is erased by the third."""
    server = LyingServer(tmp_path, 4)
    ask = agreed(server, RUN)
    assert server.ask(VICTIM, ask, Upload)
    for run in (RUN + 1, RUN + 2, RUN + 3):
        server.ask(VICTIM, AskKey(server.terms(1, run=run)), SignedKey, run=run)
    assert server.ask(VICTIM, ask, Upload) is None
    assert "round 0 is not after round 0" in server.refusals[VICTIM]


def test_an_invitation_in_a_second_run_is_another_round(tmp_path):
    server = LyingServer(tmp_path, 8, mode="dropout-tolerant", group_size=4)
    assert server.ask(VICTIM, Invite(server.terms()), Advertisement)
    assert server.ask(VICTIM, Invite(server.terms(run=RUN + 1)), Advertisement, run=RUN + 1) is None
    assert "round 0 is not after round 0" in server.refusals[VICTIM]


def test_a_copied_state_without_the_keys_in_memory_answers_nothing_under_the_old_keys(tmp_path):
    """A second machine gets the identity and the disk from before the round; the round's keys were in memory."""
    server = LyingServer(tmp_path, 4)
    ask = agreed(server, RUN)
    shutil.copytree(tmp_path / f"client_{VICTIM}.state", tmp_path / "copy")
    assert server.ask(VICTIM, ask, Upload)
    config = server.nodes[VICTIM].node_config
    config |= {"f2ed-state": str(tmp_path / "copy"), "f2ed-keys": str(tmp_path / "empty")}
    assert server.ask(VICTIM, ask, Upload) is None
    assert "holds no keys" in server.refusals[VICTIM]


@pytest.fixture(scope="module")
def lying(tmp_path_factory):
    return InputServer(tmp_path_factory.mktemp("input"), app_with(lambda *_: 1.0))


def ours(**fields):
    return ConfigRecord(fields)


def odd_array(dtype="float32", shape=(40,), stype="numpy.ndarray", data=None):
    good = model()["x"]
    return Array(dtype, shape, stype, good.data if data is None else data)


def with_record(name):
    content = training_request()
    content[name] = model()
    return content


REQUESTS = {
    "NaN": (training_request({"server-round": 1, "lr": float("nan")}), "is not a number (NaN)"),
    "a round of True": (training_request({"server-round": True}), "it is the number of a round"),
    "a round of 0": (training_request({"server-round": 0}), "it is the number of a round"),
    "a round of 2^63": (training_request({"server-round": 2**63}), "it is the number of a round"),
    "a round of 1.0": (training_request({"server-round": 1.0}), "it is the number of a round"),
    "metrics": (training_request(metrics=MetricRecord({"a": 1.0})), "MetricRecord 'metrics'"),
    "a look-alike of arrays": (with_record("array\u017f"), "that the strategy does not send"),
    "arrays with a combining mark": (with_record("arrays\u0301"), "that the strategy does not send"),
    "another form": (training_request(arrays=ArrayRecord({"x": odd_array(stype="pickle")})), "in the form 'pickle'"),
    "another shape": (training_request(arrays=ArrayRecord({"x": odd_array(shape=(20, 2))})), "both must be equal"),
    "a negative shape": (training_request(arrays=ArrayRecord({"x": odd_array(shape=(-40,))})), "both must be equal"),
    "another type": (training_request(arrays=ArrayRecord({"x": odd_array(dtype="float64")})), "both must be equal"),
    "no bytes": (training_request(arrays=ArrayRecord({"x": odd_array(data=b"")})), "no npy header"),
    "half of the bytes": (
        training_request(arrays=ArrayRecord({"x": odd_array(data=model()["x"].data[:-80])})),
        "declares 160 bytes and comes with 80",
    ),
}


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_an_odd_request_is_refused_by_name_and_uses_up_nothing(lying, name):
    content, why = REQUESTS[name]
    with pytest.raises(PeerError, match="it refused") as refused:
        read_reply(Upload, lying.ask(VICTIM, AskUpload(lying.terms), content))
    assert why in str(refused.value)
    hello = msgspec.msgpack.decode(lying.answer(VICTIM, RecordDict({"f2ed": ours(hello=bytes(32))})), type=Hello)
    assert hello.last == -1


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({}, "without 'request'"),
        ({"hello": b"short"}, "a question of 5 bytes"),
        ({"hello": "text"}, "without 'hello'"),
        ({"hello": bytes(32), "more": 1}, "a field 'more'"),
        ({"request": b"\xc1" * 100}, "cannot be read"),
        ({"request": b"\x91" * 100_000}, "cannot be read"),
        ({"request": b"\xdd\xff\xff\xff\xff"}, "cannot be read"),
        ({"request": bytes(1 << 24)}, "cannot be read"),
        ({"request": b"", "model": bytes(31)}, "cannot be read"),
    ],
)
def test_an_odd_record_of_the_protocol_is_refused(lying, record, why):
    answer = decode((Refused,), lying.answer(VICTIM, RecordDict({"f2ed": ours(**record)})))
    assert why in answer.reason


@pytest.mark.parametrize(
    ("to_victim", "to_others"),
    [
        ({"server-round": 1, "lr": 0.0}, {"server-round": 1, "lr": -0.0}),
        ({"server-round": 1, "lr": 1}, {"server-round": 1, "lr": 1.0}),
        ({"server-round": 1, "lr": 1.0, "\u00e9": 1}, {"server-round": 1, "lr": 1.0, "e\u0301": 1}),
        ({"server-round": 1, "lr": 1.0, "a": [1, 2]}, {"server-round": 1, "lr": 1.0, "a": [2, 1]}),
        ({"server-round": 1, "lr": 1.0, "a": ""}, {"server-round": 1, "lr": 1.0, "a": b""}),
        (
            {"server-round": 1, "lr": 1.0, "a": float("inf")},
            {"server-round": 1, "lr": 1.0, "a": 1.7976931348623157e308},
        ),
    ],
)
def test_values_that_look_alike_open_nothing_together(tmp_path, to_victim, to_others):
    lying = InputServer(tmp_path, app_with(lambda *_: 1.0))
    lying.lead(training_request(to_victim), training_request(to_others))
    assert all(lying.upload(client) for client in range(MEMBERS))
    assert lying.opened() is None


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_order_of_bytes_in_an_array_is_bound(tmp_path, order):
    lying = InputServer(tmp_path, app_with(lambda *_: 1.0))
    values = np.arange(4, dtype=np.int64).reshape(2, 2)
    one, other = (ArrayRecord({"x": model()["x"], "n": Array(np.asarray(values, order=each))}) for each in ("C", order))
    lying.lead(training_request(arrays=one), training_request(arrays=other))
    assert (lying.opened() is None) == (order == "F")


def test_terms_with_a_length_beyond_all_memory_allocate_nothing(tmp_path):
    server = LyingServer(tmp_path, 4)
    for length in (2**40, 2**39 + 7):
        assert server.ask(VICTIM, write(AskUpload(server.terms(length=length))), Upload) is None
        assert server.refusals[VICTIM]
