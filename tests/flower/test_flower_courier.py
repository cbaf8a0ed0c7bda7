"""The app on a helper's node carries bytes, and trains nothing."""

from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from f2ed.deployment.helper_agent import HELPER
from f2ed.flower import protect, transport
from f2ed.flower.wire import carried_content, reply_bytes, request_content
from f2ed.protocol.helpers.messages import Refused, decode
from tests.deployment.test_helper_agent import KEYS, Helped


def carried(content, path, run=1):
    """Send a message to a helper's node; return its reply."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run, 1, 1
    message = Message(content, 5, "train")
    context = Context(run, 5, {HELPER: str(path)}, RecordDict(), {})
    return reply_bytes(protect(message, context, lambda *_: pytest.fail("a helper's node trained")))


def test_a_round_whose_helpers_are_behind_flower_nodes(tmp_path):
    it = Helped(tmp_path)
    for role, agent in it.agents.items():
        agent.start(first=True)
        agent.listen(tmp_path / f"{role}.sock")
    it.ask = lambda role, run, request: carried(carried_content(request), tmp_path / f"{role}.sock", run)
    assert set(KEYS) == {"mixer", "judge"}
    outcome = it.run(0)
    assert outcome.mean is not None, outcome.aborted


def test_a_helper_that_is_down_ends_the_round_by_name(tmp_path):
    it = Helped(tmp_path)
    it.agents["judge"].start(first=True)
    it.agents["judge"].listen(tmp_path / "judge.sock")
    it.ask = lambda role, run, request: carried(carried_content(request), tmp_path / f"{role}.sock", run)
    aborted = it.run(0).aborted
    assert "the mixer gave no opening" in aborted
    assert "the helper behind this node gave no answer" in aborted
    assert str(tmp_path) not in aborted


def test_a_message_for_a_client_is_refused(tmp_path):
    reply = carried(request_content(ConfigRecord({"hello": bytes(32)})), tmp_path / "none.sock")
    assert decode((Refused,), reply).reason


@pytest.mark.parametrize(
    ("pause", "slept"), [({}, [0.05, 0.1, 0.2, 0.4, 0.5, 0.5]), ({"pause": 0.1}, [0.05, *5 * [0.1]])]
)
def test_replies_of_helpers_are_looked_for_often(monkeypatch, pause, slept):
    """A round has ten exchanges with helpers in sequence, and what each waits for in vain adds up."""
    taken, waited = [], []

    class Slow:
        def push_messages(self, messages):
            return ["asked" for _ in messages]

        def pull_messages(self, _messages):
            taken.append(1)
            return [Message(RecordDict(), reply_to=asked)] if len(taken) > len(slept) else []

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    asked = Message(RecordDict(), 5, "train")
    asked.metadata.__dict__["_message_id"] = "asked"
    monkeypatch.setattr(transport, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=waited.append))
    question = transport.Question(RecordDict(), 9.0, lambda: 9.0, **pause)
    assert [node for node, *_ in transport.Connection(Slow()).ask({5: question}, group="1")] == [5]
    assert waited == slept


def test_shards_that_wait_at_the_same_time_share_what_is_asked_of_the_superlink(monkeypatch):
    """Each shard has a thread of its own; the more of them wait, the less often each looks."""
    waited = []

    class Silent:
        def push_messages(self, messages):
            return [f"{id(each)}" for each in messages]

        def pull_messages(self, _messages):
            return []

    def sleep(seconds):
        waited.append(seconds)
        if len(waited) == 10:
            raise TimeoutError

    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    monkeypatch.setattr(transport, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=sleep))
    connection, question = transport.Connection(Silent()), transport.Question(RecordDict(), 9.0, lambda: 9.0)
    connection._all_waited("another shard", 4 * 24)
    with pytest.raises(TimeoutError):
        list(connection.ask(dict.fromkeys(range(4 * 24), question), group="1"))
    assert waited[-1] == 8 / 4, "four messages go into one request"
    assert connection._waited == {"another shard": 4 * 24}, "what is no longer waited for does not count"
