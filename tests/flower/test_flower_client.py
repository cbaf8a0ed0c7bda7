"""What a client refuses, whatever the server says."""

import os
import threading

import msgspec
import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from f2ed import Mean, OutageError, PeerError
from f2ed.deployment.identity import roster_from
from f2ed.deployment.roster import read_roster, round_task, write_roster
from f2ed.flower import F2ed, context
from f2ed.flower.wire import reply_bytes, request_content
from f2ed.protocol.aggregation import terms_of
from f2ed.protocol.secagg.messages import AskKey, AskUpload, SignedKey, Upload, read_reply, write
from tests.flower.fake_grid import FakeGrid, Node, fingerprint, model, real_roster, user_app
from tests.protocol.secagg.agree import agree

RUN = 7
CONFIG = ConfigRecord({"server-round": 1})


class Shard:
    """A federation of real nodes whose server is this test."""

    def __init__(self, folder, **app):
        self.roster, self.settings = real_roster(folder, 6, shards=2)
        self.plan = self.roster.assignment(0)
        self.nodes = [Node(client, user_app(**app), self.settings[client]) for client in range(6)]
        FakeGrid(self.nodes, RUN)

    def terms(self, shard=0, round_=0, **changes):
        task = round_task(self.roster, self.roster.job(RUN), round_, model=fingerprint(model()), coordinates=26)
        return msgspec.structs.replace(terms_of(self.plan, task, shard), **changes)

    def ask(self, client, content, kind="train"):
        message = Message(content, client + 1, kind)
        message.metadata.__dict__["_message_id"] = "a message"
        return self.nodes[client].answer(client + 1, RUN, message)

    def reply(self, client, request, *, arrays=None):
        settings = ConfigRecord({"request": write(request), "model": fingerprint(model())})
        content = request_content(settings, arrays=arrays, config=CONFIG if arrays else None)
        return reply_bytes(self.ask(client, content))

    def keys(self, terms):
        return agree(terms, self.roster.keys, self.reply)


@pytest.fixture
def shard(tmp_path):
    return Shard(tmp_path)


def refused(words, reply, kind=Upload):
    with pytest.raises(PeerError, match=f"it refused: .*{words}"):
        read_reply(kind, reply, payload=10**6)


def test_a_request_to_train_outside_of_the_protocol_gets_no_update(shard):
    content = RecordDict({"arrays": model(), "config": ConfigRecord({"server-round": 1})})
    reply = shard.ask(0, content)
    refused("no plain update", reply_bytes(reply))
    assert set(reply.content) == {"f2ed"}


def test_messages_of_another_kind_are_refused(shard):
    reply = shard.ask(0, RecordDict({}), "evaluate")
    assert "a request of type 'evaluate'; the roster allows train alone" in reply.error.reason


def test_one_round_is_answered_once(shard):
    terms = shard.terms()
    client, keys = terms.members[0], shard.keys(terms)
    read_reply(Upload, shard.reply(client, AskUpload(terms, *keys), arrays=model()), payload=10**6)
    refused("never begun twice", shard.reply(client, AskUpload(terms, *keys), arrays=model()))


def test_a_restart_does_not_let_a_round_be_answered_twice(shard):
    terms = shard.terms()
    client, keys = terms.members[0], shard.keys(terms)
    read_reply(Upload, shard.reply(client, AskUpload(terms, *keys), arrays=model()), payload=10**6)
    shard.nodes[client] = Node(client, user_app(), shard.settings[client])
    refused("never begun twice", shard.reply(client, AskUpload(terms, *keys), arrays=model()))


def test_of_two_messages_at_the_same_time_one_is_refused(tmp_path):
    met = threading.Event()
    shard = Shard(tmp_path, fault=lambda *_: met.wait(0.3))
    terms = shard.terms()
    client, keys = terms.members[0], shard.keys(terms)
    replies = []

    def ask():
        replies.append(shard.reply(client, AskUpload(terms, *keys), arrays=model()))

    both = [threading.Thread(target=ask) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert sum(b"never begun twice" in reply for reply in replies) == 1


def test_a_shard_that_the_roster_does_not_deal_is_refused(shard):
    mine, other = shard.plan.shards
    members = tuple(sorted((mine[0], *other[1:])))
    refused("states members", shard.reply(mine[0], AskKey(shard.terms(members=members))), SignedKey)


def test_another_model_gives_an_upload_that_fits_no_other(shard):
    terms = shard.terms()
    keys = shard.keys(terms)
    tags = set()
    for client, size in zip(terms.members, (26, 26, 25), strict=True):
        arrays = model(size - 3)
        reply = shard.reply(client, AskUpload(terms, *keys), arrays=arrays) if size == 26 else None
        if reply is None:
            changed = model()
            changed["bias"] = type(changed["bias"])(np.ones(3, np.float32))
            reply = shard.reply(client, AskUpload(terms, *keys), arrays=changed)
        tags.add(read_reply(Upload, reply, payload=10**6).tag)
    assert len(tags) == 2


def test_sums_in_the_clear_are_refused(shard):
    terms = shard.terms(mode="clear", threshold=1, min_crowd=1)
    refused("states mode 'clear'", shard.reply(terms.members[0], AskUpload(terms), arrays=model()))


@pytest.mark.parametrize("missing", ["f2ed-key", "f2ed-roster", "f2ed-authority"])
def test_a_node_without_its_settings_takes_no_part(shard, missing):
    client = shard.plan.shards[0][0]
    del shard.nodes[client].node_config[missing]
    refused(f"without {missing}", shard.reply(client, AskKey(shard.terms())), SignedKey)


def test_a_deployed_node_does_not_fall_back_to_a_test_roster(shard):
    node = Node(0, user_app(), run_config={"f2ed-roster": "test:6/2"})
    shard.nodes[0] = node
    refused("without f2ed-key", shard.reply(0, AskKey(shard.terms())), SignedKey)


def test_a_simulation_has_a_test_roster_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(context, "_in_simulation", lambda: True)
    given = Context(1, 2, {"partition-id": 3}, RecordDict(), {"f2ed-roster": "test:8/2"})
    with caplog.at_level("WARNING", logger="flwr"):
        me = context.identity_of(given)
    assert me.id == 3
    assert me.test
    assert "TEST ROSTER" in caplog.text


def test_a_key_that_others_may_read_is_refused(shard, tmp_path, caplog):
    client = shard.plan.shards[0][0]
    (tmp_path / f"client_{client}.key").chmod(0o644)
    refused("the reason is in its own log", shard.reply(client, AskKey(shard.terms())), SignedKey)
    assert "may be read by others" in caplog.text


def test_a_roster_that_was_changed_is_refused(shard, tmp_path):
    import msgspec

    path = tmp_path / "roster.json"
    roster = read_roster(path)
    write_roster(path, msgspec.structs.replace(roster, seed=os.urandom(32)))
    refused("changed after it was signed", shard.reply(0, AskKey(shard.terms())), SignedKey)
    with pytest.raises(PeerError, match="changed after"):
        roster_from(path)


def test_a_roster_of_another_authority_is_refused(shard, tmp_path):
    (tmp_path / "mallory").mkdir()
    real_roster(tmp_path / "mallory", 6, shards=2)
    shard.nodes[0].node_config["f2ed-roster"] = str(tmp_path / "mallory" / "roster.json")
    refused("names the authority", shard.reply(0, AskKey(shard.terms())), SignedKey)


def test_states_of_a_node_are_for_its_own_eyes(shard, tmp_path):
    terms = shard.terms()
    shard.keys(terms)
    folder = tmp_path / f"client_{terms.members[0]}.state"
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


def test_a_server_with_another_roster_is_told_so(shard, tmp_path):
    (tmp_path / "new").mkdir()
    other, _ = real_roster(tmp_path / "new", 6, shards=2)
    leader = F2ed(roster=other, estimator=Mean(), min_crowd=3, deadline=0.2, wait_for_nodes=0, max_wait=0)
    with pytest.raises(OutageError, match="0 of 2 shards can open"):
        leader.start(FakeGrid(shard.nodes, RUN), model(), num_rounds=1)
    assert not leader.records
