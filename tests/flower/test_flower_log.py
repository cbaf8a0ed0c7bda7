"""The transparency log of a deployment: who writes what, and which replies the server does not take."""

import os

import msgspec
import pytest
from flwr.app import ConfigRecord, Message

from f2ed import ConfigError, OutageError
from f2ed.deployment.keyfiles import write_pair
from f2ed.deployment.log_events import step_events
from f2ed.deployment.transparency import Authors, compare_logs, read_line
from f2ed.deployment.transparency.lines import (
    Complaint,
    Confirmed,
    Equivocation,
    KeysSeen,
    Refused,
    RoundClosed,
    Uploaded,
)
from f2ed.flower.wire import is_refusal, reply_bytes, reply_content, reply_line, request_content
from f2ed.protocol.secagg import Answer, public_key, write
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Complaint as Dispute
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Delivery, TolerantUpload
from tests.flower.fake_grid import FakeGrid, Node, fingerprint, model, real_roster, server, user_app

MASTER = os.urandom(32)


class Deployment:
    """Four clients and a server, all of which keep logs."""

    def __init__(self, folder, *, fields=None, **roster):
        self.folder = folder
        write_pair(folder / "server.key", MASTER)
        given = {"server": public_key(MASTER)} | (fields or {})
        self.roster, settings = real_roster(folder, 4, shards=1, fields=given, **roster)
        self.nodes = [Node(client, user_app(), settings[client]) for client in range(4)]
        self.records = folder / "run.jsonl"

    def lead(self, rounds=2, *, evaluate_fn=None, **settings):
        given = {"records": self.records, "server_key": self.folder / "server.key", "wait_for_nodes": 0.0}
        leader = server(self.roster, **given | settings)
        self.grid = FakeGrid(self.nodes)
        leader.start(self.grid, model(), num_rounds=rounds, evaluate_fn=evaluate_fn)

    def path(self, client):
        return self.folder / f"client_{client}.state" / f"{self.roster.lineage}.log"

    def lines(self, client=None):
        path = self.records.with_suffix(".log") if client is None else self.path(client)
        return [read_line(text) for text in path.read_bytes().splitlines()]

    def compared(self):
        paths = [self.records.with_suffix(".log"), *(self.path(client) for client in range(4))]
        return compare_logs([path for path in paths if path.exists()], Authors.of([self.roster]))


@pytest.fixture
def deployment(tmp_path):
    return Deployment(tmp_path)


def names(lines):
    return [msgspec.to_builtins(line.data)["event"] for line in lines]


def test_every_party_writes_what_it_did_and_all_agree(deployment):
    deployment.lead(2)
    assert not deployment.compared().findings
    assert names(deployment.lines(0)) == ["boot", "pinned", "key", *2 * ["began", "uploaded"]]
    assert names(deployment.lines()) == ["boot", "pinned", "round", "round"]
    first, second = (line.data for line in deployment.lines()[2:])
    assert first.shards[0].survivors == (0, 1, 2, 3)
    assert first.input == fingerprint(model())
    assert (first.after, len(first.shards[0].opened)) == (second.before, 32)
    assert [line.by for line in second.heads] == [0, 1, 2, 3]


def test_the_context_in_the_log_is_the_one_that_the_masks_are_bound_to(deployment):
    deployment.lead(1)
    uploads = [reply for reply in deployment.grid.replies if names([read_line(reply_line(reply))]) == ["uploaded"]]
    assert len(uploads) == 4
    for reply in uploads:
        assert read_line(reply_line(reply)).data.ctx[:8] in reply_bytes(reply)[:64]


def test_a_dropout_tolerant_round_logs_keys_and_survivors(tmp_path):
    deployment = Deployment(tmp_path, mode="dropout-tolerant", colluders=0)
    deployment.lead(1)
    assert not deployment.compared().findings
    lines = deployment.lines(0)
    assert names(lines)[2:] == ["began", "keys", "uploaded", "confirmed"]
    assert isinstance(lines[3].data, KeysSeen)
    assert lines[5].data == Confirmed(round=0, shard=0, ctx=lines[2].data.ctx, survivors=(0, 1, 2, 3))


def test_a_round_with_a_silent_client_is_logged_with_its_name(deployment):
    deployment.nodes[2].tamper = lambda message, reply: reply if "hello" in message.content["f2ed"] else None
    with pytest.raises(OutageError):
        deployment.lead(1)
    (line,) = (line.data for line in deployment.lines() if isinstance(line.data, RoundClosed))
    assert line.shards[0].dropped == {"client_2": "late: no reply within 0.2 s"}
    assert (line.shards[0].survivors, line.before) == ((), line.after)
    assert not deployment.compared().findings


def test_a_refusal_is_logged_with_its_reason_and_its_line_is_sent(deployment):
    FakeGrid(deployment.nodes)
    message = Message(request_content(ConfigRecord({"hello": b"too short"})), 1, "train")
    message.metadata.__dict__["_message_id"] = "a message"
    reply = deployment.nodes[0].answer(1, 77, message)
    line = deployment.lines(0)[-1]
    assert read_line(reply_line(reply)) == line
    assert line.data == Refused(reason="a question of 9 bytes; 32 were expected")


def after_the_hello(change):
    def tamper(message, reply):
        if "hello" in message.content["f2ed"]:
            return reply
        return Message(reply_content(reply_bytes(reply), change(reply_line(reply))), reply_to=message)

    return tamper


LINES = {
    "none": (lambda _: b"", "a reply without a line of the node's log"),
    "no line": (lambda _: b"{}", "not a line of a log"),
    "too long": (lambda line: line + bytes(1 << 16), "a line of a log of"),
    "changed": (lambda line: line.replace(b'"serial":1', b'"serial":2'), "was not signed by its author"),
    "of another": (lambda line: line.replace(b'"by":1', b'"by":2'), "a line of the log of client 2"),
}


@pytest.mark.parametrize("fault", LINES)
def test_a_reply_without_a_good_line_is_not_taken(deployment, fault):
    change, words = LINES[fault]
    deployment.nodes[1].tamper = after_the_hello(change)
    with pytest.raises(OutageError):
        deployment.lead(1)
    (line,) = (line.data for line in deployment.lines() if isinstance(line.data, RoundClosed))
    (shard,) = line.shards
    assert shard.survivors == ()
    assert words in shard.dropped["client_1"]


def test_a_node_that_sends_no_line_takes_no_part(deployment, caplog):
    deployment.nodes[1].tamper = lambda message, reply: Message(reply_content(reply_bytes(reply)), reply_to=message)
    with pytest.raises(OutageError):
        deployment.lead(1)
    assert "takes no part: a reply without a line of the node's log" in caplog.text


def test_a_node_whose_log_went_back_is_noticed_and_both_lines_are_kept(deployment, caplog):
    def rewrite(round_, _arrays):
        if round_ == 1:
            path = deployment.path(3)
            path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))

    deployment.lead(3, evaluate_fn=rewrite)
    assert "the log of client 3 went back from line 4 to line 4" in caplog.text
    (found,) = (line.data for line in deployment.lines() if isinstance(line.data, Equivocation))
    assert [line.by for line in found.lines] == [3, 3]
    kinds = {finding.kind for finding in deployment.compared().findings}
    assert kinds == {"equivocation"}


def test_a_log_that_cannot_be_written_stops_the_node(deployment, monkeypatch, caplog):
    def full(path, _data, **_):
        if "client_1" in str(path):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("f2ed.deployment.transparency.store.append", full)
    FakeGrid(deployment.nodes)
    message = Message(request_content(ConfigRecord({"hello": bytes(32)})), 1, "train")
    message.metadata.__dict__["_message_id"] = "a message"
    reply = deployment.nodes[1].answer(1, 77, message)
    assert "cannot be written: No space left on device; make room" in caplog.text
    assert (reply_line(reply), is_refusal(reply_bytes(reply))) == (b"", True)


@pytest.mark.usefixtures("simulated")
def test_simulated_nodes_keep_no_log():
    nodes = [Node(client, user_app(), run_config={"f2ed-roster": "test:8/2"}) for client in range(8)]
    grid = FakeGrid(nodes)
    server("test:8/2").start(grid, model(), num_rounds=1)
    assert {reply_line(reply) for reply in grid.replies} == {b""}


def test_a_roster_that_names_the_key_of_the_server_needs_it(deployment):
    with pytest.raises(ConfigError, match="give its private half as server_key"):
        server(deployment.roster)


def test_another_key_does_not_sign_the_servers_log(deployment, tmp_path):
    write_pair(tmp_path / "other.key", os.urandom(32))
    with pytest.raises(ConfigError, match="is not the key of the server's log that the roster names"):
        server(deployment.roster, server_key=tmp_path / "other.key", records=deployment.records)


def test_a_log_needs_a_place(deployment, tmp_path):
    with pytest.raises(ConfigError, match="server_key without records or checkpoint"):
        server(deployment.roster, server_key=tmp_path / "server.key")


def test_a_restarted_server_continues_its_log(deployment):
    deployment.lead(1, checkpoint=deployment.folder / "run.checkpoint")
    deployment.lead(2, checkpoint=deployment.folder / "run.checkpoint")
    assert names(deployment.lines()) == ["boot", "pinned", "round", "round"]
    assert not deployment.compared().findings


def test_a_complaint_is_logged_with_its_dealer():
    reply = write(TolerantUpload(bytes(8), memoryview(b"vector"), (Dispute(1, 3, bytes(32), bytes(64)),)))
    under_way = (5, 0, b"c" * 32)
    events, after = step_events(Delivery(()), Answer(b"", reply), None, bytes(32), under_way)
    where = {"round": 5, "shard": 0, "ctx": b"c" * 32}
    assert events == (Complaint(**where, dealers=(3,)), Uploaded(**where))
    assert after == under_way
