"""The agent's conversation: a round through it, and every way in which it can end."""

import os
import socket
import struct

import msgspec
import numpy as np
import pytest
from flwr.app import RecordDict

from f2ed import ConfigError, PeerError
from f2ed.deployment.agent import Agent, ask_agent, listener, server
from f2ed.deployment.agent.client import converse
from f2ed.deployment.agent.frames import Failed, Update, receive, send, send_floats
from f2ed.deployment.asked import Need
from f2ed.protocol.secagg.messages import Upload, read_reply
from tests.adversary.agents import HONEST, RUN, answer, told
from tests.adversary.lying_server import MEMBERS, SIZE, VICTIM, app_with, secret

pytestmark = pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="needs Linux")


def is_over(app):
    return app.recv(1) == b""


def uploaded(reply):
    return read_reply(Upload, reply.reply, payload=10**6)


def test_a_round_through_agents_opens_the_sum(agents):
    server_ = agents().lead(HONEST, HONEST)
    np.testing.assert_allclose(server_.opened(), sum(map(secret, range(MEMBERS))), atol=1e-4)
    assert all(set(node.node_config) == {"partition-id", "f2ed-agent"} for node in server_.nodes)


def test_an_update_of_doubles_is_not_narrowed(agents):
    made = agents()
    with made.conversation(0) as app:
        assert isinstance(told(app, made.described(0, made.upload_request())), Need)
        send_floats(app, np.zeros(SIZE, np.float64))
        uploaded(answer(app))


def test_a_process_of_another_user_is_not_heard(agents, caplog):
    made = agents(uid=os.geteuid() + 1)
    with made.conversation(0) as app:
        assert is_over(app)
    assert f"a process of user {os.geteuid()} asked; apps run as user {os.geteuid() + 1}" in caplog.text
    assert b"cannot take part" in made.answer(0, made.hello())


def test_an_unknown_request_ends_the_conversation(agents, caplog):
    made = agents()
    for data in (msgspec.msgpack.encode(["sign", b"anything"]), b"\xc1", msgspec.msgpack.encode(Failed())):
        with made.conversation(0) as app:
            app.sendall(struct.pack(">Q", len(data)) + data)
            assert is_over(app)
    assert caplog.text.count("a frame that cannot be read here") == 3


def test_an_oversized_frame_is_not_read(agents, caplog):
    with agents().conversation(0) as app:
        app.sendall(struct.pack(">Q", 2**26 + 1))
        assert is_over(app)
    assert "at most 67108864 are read" in caplog.text


def test_an_app_that_says_nothing_is_not_waited_for(agents, monkeypatch, caplog):
    monkeypatch.setattr(server, "_PATIENCE", 0.05)
    with agents().conversation(0) as app:
        assert is_over(app)
    assert "timed out" in caplog.text


@pytest.mark.parametrize("count", [0, SIZE - 1, SIZE + 1, 2**20])
def test_an_update_of_another_length_leaves_as_random_words(agents, caplog, count):
    made = agents()
    with made.conversation(0) as app:
        told(app, made.described(0, made.upload_request()))
        send_floats(app, np.zeros(count, np.float32))
        uploaded(answer(app))
    assert f"the app handed over {count} coordinates; the model has {SIZE}" in caplog.text


def test_a_training_that_failed_is_not_visible(agents, caplog):
    made = agents(app_with(lambda *_: 1.0, faults={VICTIM: lambda _: 1 / 0}))
    made.lead(HONEST, HONEST)
    assert made.opened() is None
    assert "the reason is in the log of the app's process" in caplog.text


def test_only_an_update_answers_the_call_to_train(agents, caplog):
    made = agents()
    asked = made.described(0, made.upload_request())
    with made.conversation(0) as app:
        told(app, asked)
        send(app, asked)
        assert is_over(app)
    assert "a frame that cannot be read here" in caplog.text


def test_an_app_that_ends_in_the_middle_leaves_no_trace_in_the_state(agents, caplog):
    made = agents()
    asked = made.described(0, made.upload_request())
    for sent in (None, Update("<f4", SIZE)):
        with made.conversation(0) as app:
            told(app, asked)
            if sent is not None:
                send(app, sent)
    with made.conversation(0) as app:
        uploaded(converse(app, asked, lambda _: np.zeros(SIZE, np.float32)))
    assert caplog.text.count("the other side ended the conversation") == 2


def test_an_agent_that_ends_in_the_middle_costs_the_round_and_tells_nothing(agents, caplog):
    made = agents()
    content = made.upload_request()
    mine, theirs = socket.socketpair()
    with mine, theirs:
        send(theirs, Need(stateful=False))
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(Exception, match="ended the conversation"):
            converse(mine, made.described(0, content), lambda _: np.zeros(SIZE, np.float32))
    made.close()
    assert b"this node cannot take part" in made.answer(0, content)
    assert "gave no answer" in caplog.text


def test_a_second_process_waits_and_then_gets_no_second_answer(agents):
    made = agents()
    asked = made.described(0, made.upload_request())
    with made.conversation(0) as first, made.conversation(0) as second:
        told(first, asked)
        send(second, asked)
        second.settimeout(0.3)
        with pytest.raises(TimeoutError):
            second.recv(1)
        send_floats(first, np.zeros(SIZE, np.float32))
        uploaded(answer(first))
        second.settimeout(30)
        with pytest.raises(PeerError):
            uploaded(answer(second))


def test_conversations_are_limited_and_freed(agents):
    made = agents()
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as app:
            app.connect(str(made.place / "0"))
            app.sendall(struct.pack(">Q", 2**40))
            assert is_over(app)


def test_a_socket_that_cannot_be_made_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"the agent.s socket .* cannot be made"):
        Agent({}, {}.get, uid=0).listen(tmp_path / "missing" / "agent")


def test_the_socket_is_for_its_user_alone(agents):
    assert (agents().place / "0").stat().st_mode & 0o777 == 0o600


def test_an_agent_that_is_not_there_is_named(tmp_path, agents):
    made = agents()
    with pytest.raises(ConfigError, match="f2ed node, which must be running"):
        ask_agent(str(tmp_path / "none"), made.described(0, HONEST), None)


def test_an_input_that_is_not_described_is_refused(agents):
    made = agents()
    asked = made.described(0, made.upload_request())
    for given in (None, msgspec.structs.replace(asked.given, message_type="evaluate")):
        with made.conversation(0) as app:
            reply = told(app, msgspec.structs.replace(asked, given=given))
        assert "says nothing about its input" in reply.refused


def test_settings_that_are_no_settings_are_refused(agents):
    made = agents()
    asked = made.described(0, made.upload_request())
    for changed in (
        msgspec.structs.replace(asked, run_config={"lr": None}),
        msgspec.structs.replace(asked, given=msgspec.structs.replace(asked.given, config={"lr": {}})),
    ):
        with made.conversation(0) as app:
            assert "must be a bool, int, float" in told(app, changed).refused


def test_messages_of_other_types_are_checked_by_the_agent_and_answered_by_the_app(agents):
    made = agents()
    reply = made.send(0, HONEST, "evaluate")
    assert reply is not None
    with made.conversation(0) as app:
        assert "a request of type 'query'" in told(app, made.described(0, RecordDict(), "query")).refused


def test_a_run_that_the_launcher_did_not_let_in_gets_no_answer(agents, monkeypatch):
    made = agents()
    content = made.upload_request()
    monkeypatch.setenv("F2ED_APP", made.approved.pop(RUN).hex())
    with pytest.raises(PeerError, match="cannot tell which app it runs"):
        read_reply(Upload, made.answer(0, content), payload=10**6)


def test_half_a_frame_is_none():
    mine, theirs = socket.socketpair()
    with mine, theirs:
        mine.sendall(struct.pack(">Q", 3) + b"ab")
        mine.close()
        with pytest.raises(Exception, match="ended the conversation"):
            receive(theirs, Need, most=10)


def test_whom_the_system_names_is_asked_for_and_not_the_group():
    """The system answers with process, user and group of the other side."""

    class Peer:
        def getsockopt(self, level, option, size):
            assert (level, option, size) == (socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            return struct.pack("3i", 4711, 1001, 1002)

    assert listener._peer(Peer()) == 1001
