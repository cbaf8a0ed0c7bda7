"""An approved app that is hostile, with an agent between it and the key: what it can do, and what it cannot.

It sees the data, and may train on what it likes. It gets no key, no signature of its choice and no second answer, and
its update leaves clipped, with noise, and paid for.
"""

import socket

import msgspec
import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import RecordDict

from f2ed import PeerError
from f2ed.deployment.agent.frames import receive, send, send_floats
from f2ed.deployment.asked import Need, Reply
from f2ed.deployment.hello import Hello, hello_text
from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.roster import App, SignedEncoding
from f2ed.protocol.dp import dp_epsilon
from f2ed.protocol.primitives.crypto import verify
from f2ed.protocol.secagg.messages import AskKey, SignedKey, Upload, read_reply
from tests.adversary.agents import APP_HASH, RUN, answer, told
from tests.adversary.lying_server import MEMBERS, SIZE, VICTIM, app_with, secret, training_request

pytestmark = pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="needs Linux")
DELTA = 1e-4


def hostile(made, client, asked, update):
    """Let a client's app tell its agent whatever it likes, and keep the reply as its upload."""
    with made.conversation(client) as app:
        reply = told(app, asked)
        if isinstance(reply, Need):
            send_floats(app, np.asarray(update, np.float32))
            reply = answer(app)
    made.replies[client] = reply.reply
    return reply


def others_upload(made, content):
    for client in range(MEMBERS):
        if client != VICTIM:
            made.replies[client] = made.answer(client, content)


def test_it_gets_neither_the_key_nor_the_state(agents, tmp_path):
    made = agents()
    content = made.upload_request()
    seen = b""
    for asked in (
        made.described(VICTIM, content),
        made.described(VICTIM, made.hello()),
        made.described(VICTIM, made.with_request(AskKey(made.terms), {})),
        msgspec.structs.replace(made.described(VICTIM, content), fault="show the key"),
    ):
        seen += msgspec.msgpack.encode(hostile(made, VICTIM, asked, secret(VICTIM)))
    key = read_private(tmp_path / f"client_{VICTIM}.key")
    states = [path.read_bytes() for path in tmp_path.rglob("keys-*") if not path.suffix]
    assert len(states) >= 1
    assert key not in seen
    assert key.hex().encode() not in seen
    assert not any(
        state[at : at + 32] in seen
        for state in states
        for at in range(0, len(state) - 32, 8)
        if any(state[at : at + 32])
    )


@pytest.mark.parametrize("length", [0, 31, 33, 64, 1000])
def test_it_gets_no_signature_of_bytes_of_any_length(agents, length):
    made = agents()
    asked = made.described(VICTIM, made.hello(bytes(length)))
    reply = hostile(made, VICTIM, asked, [])
    assert f"a question of {length} bytes" in reply.refused


def test_what_it_gets_signed_is_a_hello_and_nothing_else(agents):
    made = agents()
    wanted = b"key of epoch 0, mine, not his..."
    reply = hostile(made, VICTIM, made.described(VICTIM, made.hello(wanted)), [])
    hello = msgspec.msgpack.decode(reply.reply, type=Hello)
    public = made.roster.keys[VICTIM]
    text = hello_text(made.roster.job(RUN), VICTIM + 1, VICTIM, hello.run_config, hello.last, wanted)
    verify(public, text, hello.signature)
    with pytest.raises(PeerError):
        verify(public, wanted, hello.signature)


def test_it_cannot_answer_a_round_twice(agents):
    made = agents()
    asked = made.described(VICTIM, made.upload_request())
    read_reply(Upload, hostile(made, VICTIM, asked, np.zeros(SIZE)).reply, payload=10**6)
    for update in (np.zeros(SIZE), secret(VICTIM)):
        with pytest.raises(PeerError):
            read_reply(Upload, hostile(made, VICTIM, asked, update).reply, payload=10**6)


def test_it_cannot_skip_the_clip(agents):
    made = agents(encoding=SignedEncoding(clip_value=0.05))
    content = made.upload_request()
    hostile(made, VICTIM, made.described(VICTIM, content), np.full(SIZE, 1e6))
    others_upload(made, content)
    companions = sum(secret(client) for client in range(MEMBERS) if client != VICTIM)
    np.testing.assert_allclose(made.opened() - companions, 0.05, atol=1e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_cannot_be_clipped_spoils_its_own_sum(agents, value):
    made = agents()
    content = made.upload_request()
    hostile(made, VICTIM, made.described(VICTIM, content), np.full(SIZE, value))
    others_upload(made, content)
    assert made.opened() is None


def test_it_cannot_skip_the_noise(agents):
    made = agents(app_with(lambda *_: 0.0), encoding=SignedEncoding(clip_norm=0.1), noise_multiplier=2.0)
    content = made.upload_request()
    for client in range(MEMBERS):
        hostile(made, client, made.described(client, content), np.zeros(SIZE))
    assert np.std(made.opened()) > 0.05


def test_it_cannot_skip_the_budget_and_pays_even_for_what_it_does_not_send(agents, tmp_path):
    pytest.importorskip("dp_accounting")
    one_round = dp_epsilon(1 / 8, DELTA) * 1.001
    made = agents(
        app_with(lambda *_: 0.0),
        encoding=SignedEncoding(clip_norm=0.1),
        noise_multiplier=2.0,
        more={"f2ed-dp-epsilon": one_round, "f2ed-delta": DELTA},
    )
    asked = made.described(VICTIM, made.upload_request())
    with made.conversation(VICTIM) as app:
        assert isinstance(told(app, asked), Need)
    with made.conversation(VICTIM) as app:
        send(app, asked)
        refusal = receive(app, Reply, most=10**6)
    with pytest.raises(PeerError, match="cannot afford"):
        read_reply(Upload, refusal.reply, payload=10**6)
    assert list(tmp_path.glob("*.spent.json"))


def test_an_input_that_only_it_states_opens_nothing(agents):
    made = agents()
    content = made.upload_request()
    lie = msgspec.structs.replace(made.described(VICTIM, content).given, config={"server-round": 1, "lr": 0.5})
    hostile(made, VICTIM, msgspec.structs.replace(made.described(VICTIM, content), given=lie), secret(VICTIM))
    others_upload(made, content)
    assert made.opened() is None


def test_it_can_state_the_input_of_the_others_whatever_it_received(agents):
    """The limit: an app trains on what it likes, so what it says that it was given cannot be checked either."""
    made = agents()
    content = made.upload_request()
    received = made.described(VICTIM, RecordDict({**content, **training_request({"server-round": 1, "lr": 9.0})}))
    stated = msgspec.structs.replace(received, given=made.described(VICTIM, content).given)
    hostile(made, VICTIM, stated, secret(VICTIM))
    others_upload(made, content)
    np.testing.assert_allclose(made.opened(), sum(map(secret, range(MEMBERS))), atol=1e-4)


def test_it_can_write_a_refusal_in_its_own_words_and_no_other_line(agents):
    made = agents()
    asked = msgspec.structs.replace(made.described(VICTIM, made.hello()), fault="x" * 600)
    assert hostile(made, VICTIM, asked, []).refused == "x" * 500


def test_the_app_is_the_one_that_the_launcher_let_in_whatever_it_says(agents, monkeypatch):
    made = agents(apps=(App(APP_HASH, "good"),))
    monkeypatch.setenv("F2ED_APP", APP_HASH.hex())
    content = made.with_request(AskKey(made.terms), {})
    read_reply(SignedKey, made.answer(VICTIM, content))
    made.approved[RUN] = bytes(32)
    with pytest.raises(PeerError, match="is not approved"):
        read_reply(SignedKey, made.answer(VICTIM, content))


def test_it_cannot_speak_for_a_run_that_was_not_let_in(agents):
    made = agents()
    asked = msgspec.structs.replace(made.described(VICTIM, made.hello()), run=RUN + 1)
    assert "cannot tell which app it runs" in hostile(made, VICTIM, asked, []).refused
