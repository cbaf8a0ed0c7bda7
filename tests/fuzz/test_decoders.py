"""Every decoder under random and mutated bytes: `PeerError` and nothing else, and no large allocation."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from f2ed.core.errors import PeerError
from f2ed.core.randomness import stream
from f2ed.protocol.secagg import Member, Terms, encapsulate, public_key, respond, secure_sum
from f2ed.protocol.secagg.messages import (
    AskChains,
    AskKey,
    AskUpload,
    AskWraps,
    Ready,
    Refused,
    SignedKey,
    Upload,
    Wrap,
    Wraps,
    read_reply,
    write,
)
from f2ed.protocol.secagg.schemes import read_request
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Advertisement,
    Alive,
    Complaint,
    Confirmation,
    Confirmations,
    Delivery,
    Invite,
    Link,
    Parcel,
    Peers,
    Reveal,
    Share,
    Shares,
    SignedParcel,
    TolerantUpload,
)

TERMS = Terms(
    job="fuzz", epoch=0, round=0, shard=0, members=(1, 2, 3), mode="dropout-tolerant", threshold=2, min_crowd=3,
    length=4, ring=32, bits=8, clip_value=1.0, clip_norm=1.0, weights=(1, 1, 1),
)  # fmt: skip
KEY, SIGNATURE = bytes(range(32)), bytes(64)
PARCEL = Parcel(1, 2, bytes(82), bytes(16), bytes(16), bytes(1088), Link(bytes(1088), KEY, KEY))
ADVERTISEMENT = Advertisement(1, KEY, KEY, bytes(1184), bytes(1184), KEY, SIGNATURE)
SIGNED_KEY = SignedKey(1, KEY, bytes(1184), SIGNATURE)
REQUESTS = [
    AskKey(TERMS),
    AskWraps(TERMS, (SIGNED_KEY,)),
    AskChains(TERMS, (Wrap(1, bytes(1088), (KEY,), SIGNATURE),)),
    AskUpload(TERMS, 3, KEY),
    Invite(TERMS),
    Peers((ADVERTISEMENT,)),
    Delivery((SignedParcel(PARCEL, (KEY,), SIGNATURE),)),
    Alive((1, 2, 2**64 - 1)),
    Confirmations((Confirmation(1, SIGNATURE),)),
]
REPLIES = [
    SIGNED_KEY,
    Wraps(1, (bytes(1088), b""), SIGNATURE),
    Ready(KEY),
    ADVERTISEMENT,
    Shares((PARCEL,), SIGNATURE),
    Upload(bytes(8), memoryview(bytes(16))),
    TolerantUpload(bytes(8), memoryview(bytes(16)), (Complaint(1, 2, KEY, SIGNATURE, unlinked=True),)),
    Confirmation(2**64 - 1, SIGNATURE),
    Reveal(bytes(32), (Share(1, bytes(33)),)),
]
KINDS = [type(reply) for reply in REPLIES]
SEEDS = [write(message) for message in (*REQUESTS, *REPLIES, Refused("no"))]
BOMBS = [
    b"\xdd\xff\xff\xff\xff",  # an array of four billion
    b"\xdf\xff\xff\xff\xff",  # a map of four billion
    b"\xc6\xff\xff\xff\xff",  # four billion bytes
    b"\xdb\xff\xff\xff\xff",  # four billion characters
    b"\x91" * 5000,  # five thousand brackets
    b"\x92\xa5alive\xdd\x7f\xff\xff\xff\x01",
    b"\x92\xa5peers\xdd\x7f\xff\xff\xff\x96",
    b"\x92\xa5alive" + b"\x91" * 5000,
    b"\x92\xa7refused\xa2\xff\xff",  # not UTF-8
    b"\x92\xa5alive\x91\xff",  # a negative id
    b"\x92\xa5alive\x91\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",  # NaN for an id
    b"\x92\xc0\xc0",
]

mutations = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "repeat"]), st.integers(0, 2**16), st.binary(min_size=1, max_size=9)
    ),
    min_size=1,
    max_size=6,
)


@st.composite
def mutated(draw):
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for kind, place, extra in draw(mutations):
        at = place % (len(data) + 1)
        if kind == "flip" and at < len(data):
            data[at] ^= extra[0] or 1
        elif kind == "cut":
            del data[at : at + len(extra)]
        elif kind == "insert":
            data[at:at] = extra
        elif kind == "repeat":
            data[at:at] = data[at : at + 20]
    return bytes(data)


def decode_all(data):
    """Run every decoder; count the ones that took the bytes for a message."""
    taken = 0
    for read in (read_request, *(lambda d, k=kind: read_reply(k, d, payload=64) for kind in KINDS)):
        try:
            read(data)
            taken += 1
        except PeerError:
            continue
    return taken


@pytest.mark.parametrize("message", REQUESTS, ids=lambda m: type(m).__name__)
def test_requests_come_back_as_they_were_sent(message):
    assert read_request(write(message)) == message


@pytest.mark.parametrize("message", REPLIES, ids=lambda m: type(m).__name__)
def test_replies_come_back_as_they_were_sent(message):
    assert read_reply(type(message), write(message), payload=64) == message


@pytest.mark.parametrize("message", REPLIES, ids=lambda m: type(m).__name__)
def test_every_cut_of_a_message_is_refused(message):
    data = write(message)
    for end in range(len(data)):
        with pytest.raises(PeerError):
            read_reply(type(message), data[:end], payload=64)
    with pytest.raises(PeerError):
        read_reply(type(message), data + b"\0", payload=64)


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=400))
@example(b"")
def test_random_bytes_raise_peer_errors_alone(data):
    assert decode_all(data) <= 1


@settings(max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_mutated_messages_raise_peer_errors_alone(data):
    assert decode_all(data) <= 1


@pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
def test_a_length_that_lies_allocates_nothing(bomb):
    decode_all(bomb)
    tracemalloc.start()
    try:
        assert decode_all(bomb) == 0
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200_000


def test_a_message_longer_than_any_is_refused_unread():
    with pytest.raises(PeerError, match="at most"):
        read_request(bytes(17_000_000))
    with pytest.raises(PeerError, match="at most"):
        read_reply(Upload, bytes(17_000_000), payload=100)


SEED = bytes(32)
ROSTER = {i: public_key(bytes([i]) * 32) for i in (1, 2, 3)}
MEMBER = Member(id=1, signing_key=bytes([1]) * 32, roster=ROSTER, job="fuzz")


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.binary(max_size=200), mutated()))
def test_a_client_answers_any_bytes_with_a_message(data):
    answer = respond(
        MEMBER,
        b"",
        data,
        model=SEED,
        contribution=lambda _: np.zeros(4, np.uint32),
        entropy=SEED,
        encapsulate=encapsulate,
    )
    assert answer.reply


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(st.binary(max_size=200), mutated()), min_size=3, max_size=3))
def test_a_server_outlives_any_replies(junk):
    server = secure_sum(TERMS, ROSTER, model=SEED)
    next(server)
    with pytest.raises(StopIteration) as stop:
        server.send({1: junk[0], 2: junk[1], 3: junk[2]})
    assert stop.value.value.total is None
    assert stop.value.value.reason


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 4), st.integers(0, 2**32))
def test_a_mutated_reply_at_any_step_never_stops_the_server(at, seed):
    """An honest shard of five with one bit of one reply flipped, at any place and step, still has an outcome."""
    rng = stream(seed, "flip")
    ids = (1, 2, 3, 4, 5)
    roster = {i: public_key(bytes([i]) * 32) for i in ids}
    members = {i: Member(id=i, signing_key=bytes([i]) * 32, roster=roster, job="fuzz") for i in ids}
    server = secure_sum(
        Terms(
            job="fuzz", epoch=0, round=0, shard=0, members=ids, mode="dropout-tolerant", threshold=3, min_crowd=3,
            length=4, ring=32, bits=8, clip_value=1.0, clip_norm=1.0,
        ),
        roster,
        model=SEED,
    )  # fmt: skip
    states = dict.fromkeys(ids, b"")
    requests, outcome = next(server), None
    for step in range(6):
        replies = {}
        for client, request in requests.items():
            answer = respond(
                members[client], states[client], request, model=SEED,
                contribution=lambda _: np.zeros(4, np.uint32), entropy=rng.bytes(32), threads=1,
                encapsulate=encapsulate,
            )  # fmt: skip
            states[client], replies[client] = answer.state, answer.reply
        if step == at:
            data = bytearray(replies[2])
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
            replies[2] = bytes(data)
        try:
            requests = server.send(replies)
        except StopIteration as stop:
            outcome = stop.value
            break
    assert outcome is not None
    assert (outcome.total is None) == (outcome.reason is not None)
