"""A model that makes training fail on somebody's data tells the server that someone failed, and not who."""

from math import log2

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message, RecordDict

from f2ed import Encoding, PeerError
from f2ed.protocol.aggregation import random_words
from f2ed.protocol.quantization.encoding import decode_mean
from f2ed.protocol.secagg.messages import AskChains, AskKey, AskUpload, AskWraps, Upload, read_reply
from tests.adversary.lying_server import MEMBERS, SIZE, VICTIM, LyingServer, app_with, training_request
from tests.flower.fake_grid import model, server

WHO = {
    "the victim alone": {VICTIM},
    "all but the victim": set(range(MEMBERS)) - {VICTIM},
    "everyone": set(range(MEMBERS)),
}
REASON = "patient 4711 has a bad label"


def raises(error):
    def fault(_message):
        raise error

    return fault


def returns(values=None, **arrays):
    """Return a training function that returns another model than it should."""

    def fault(message):
        given = dict(message.content["arrays"])
        if values is not None:
            given["x"] = Array(values(given["x"].numpy()))
        return Message(RecordDict({"arrays": ArrayRecord(given | arrays)}), reply_to=message)

    return fault


FAULTS = {
    "an exception": raises(ValueError(REASON)),
    "an exit": raises(SystemExit(REASON)),
    "no ordinary exception": raises(BaseException(REASON)),
    "no memory": lambda _: np.ones(2**50),
    "no end": lambda message: FAULTS["no end"](message),  # noqa: PLW0108  it calls itself
    "NaN": returns(lambda x: x * np.float32(np.nan)),
    "infinity": returns(lambda x: x + np.float32(np.inf)),
    "another shape": returns(lambda x: x.reshape(2, -1)),
    "another type": returns(lambda x: x.astype(np.int64)),
    "an array more": returns(more=Array(np.zeros(1))),
    "an array that cannot be read": returns(x=Array("float32", (SIZE,), "numpy.ndarray", b"")),
    "no model": lambda message: Message(RecordDict({}), reply_to=message),
    "an error": lambda message: Message(Error(code=1, reason=REASON), reply_to=message),
    "nothing": lambda _: None,
}


def view(lying):
    """Return what the server can compare: the kind, the length and the tag of each reply."""
    return {(type(lying.upload(each)), len(lying.replies[each]), lying.upload(each).tag) for each in lying.replies}


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_server_sees_equal_replies_and_a_sum_of_garbage(tmp_path, fault, who, caplog):
    app = app_with(lambda *_: 1.0, faults=dict.fromkeys(WHO[who], FAULTS[fault]))
    lying = LyingServer(tmp_path, app).lead(training_request(), training_request())
    assert len(view(lying)) == 1
    assert lying.opened() is None
    assert caplog.text.count("training failed, so random words leave in place of the update") == len(WHO[who])
    assert b"4711" not in b"".join(lying.replies.values())


def test_what_is_uploaded_is_uniform_and_new_each_time(tmp_path):
    """Every byte of a node's upload takes all values, and nothing of it repeats in another node's."""
    app = app_with(lambda *_: 1.0, faults=dict.fromkeys(range(MEMBERS), FAULTS["an exception"]))
    lying = LyingServer(tmp_path, app).lead(training_request(), training_request())
    payloads = [bytes(lying.upload(client).payload) for client in range(MEMBERS)]
    assert len({payload[start : start + 8] for payload in payloads for start in range(0, 8 * (SIZE // 2), 8)}) == 80
    terms = lying.terms
    words = np.concatenate([random_words(terms, key=bytes([k]) * 32) for k in range(200)]).view(np.uint8)
    counts = np.bincount(words, minlength=256)
    expected = len(words) / 256
    assert ((counts - expected) ** 2 / expected).sum() < 400  # chi² with 255 degrees: above 400 once in 10^8


def test_a_round_that_failed_is_not_begun_again(tmp_path):
    """Else the server could send the same round with a kinder model and compare."""
    app = app_with(lambda *_: 1.0, faults={VICTIM: FAULTS["NaN"]})
    lying = LyingServer(tmp_path, app).lead(training_request(), training_request())
    for request in (AskKey(lying.terms), AskWraps(lying.terms, ()), AskChains(lying.terms, ()), AskUpload(lying.terms)):
        reply = lying.ask(VICTIM, request, training_request() if request.asks_update else None)
        with pytest.raises(PeerError, match="never begun twice"):
            read_reply(Upload, reply, payload=10**6)


@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_the_records_of_an_honest_server_name_nobody(federation, mode, failing):
    shard = federation(signed={"mode": mode})[2].assignment(0).shards[0]

    def fault(_message, context):
        if context.node_config["partition-id"] in shard[: failing + 1]:
            raise ValueError(REASON)

    grid, _, roster = federation(fault=fault)
    leader = server(roster, mode=mode, min_shards=1)
    leader.start(grid, model(), num_rounds=1)
    (record,) = leader.records
    assert record.dropped == {}
    assert set(record.excluded) == {0}
    assert "3 clipped updates reach at most" in record.excluded[0]


@pytest.mark.parametrize("members", [3, 4, 10, 100, 1000])
@pytest.mark.parametrize("bits", [8, 12, 14, 16, 20, 24])
def test_random_words_leave_the_range_of_honest_sums(members, bits):
    """A random word is in range with a chance of at most 1/4, so d of them with at most 4^-d."""
    encoding = Encoding(1.0, bits=bits)
    ring = encoding.ring_for(members)
    chance = (2 * members * encoding.largest + 1) / 2**ring.bits
    assert chance <= 1 / 4
    total = np.frombuffer(np.random.default_rng(0).bytes(ring.dtype.itemsize * encoding.length(100)), ring.dtype)
    with pytest.raises(PeerError):
        decode_mean(total, encoding, clients=members, survivors=members)


def test_with_default_settings_the_chance_is_one_in_a_thousand_per_word():
    """In a shard of four: 20 bits in a ring of 32, so that even a model of 26 coordinates passes once in 10^78."""
    encoding = Encoding(1.0)
    chance = (2 * 4 * encoding.largest + 1) / 2 ** encoding.ring_for(4).bits
    assert log2(chance) == pytest.approx(-10, abs=0.01)
