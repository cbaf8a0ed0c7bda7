"""The node of a helper: it carries messages, and unpacks and runs nothing."""

from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.supercore.constant import TaskType
from flwr.supercore.superexec.executor.types import LaunchResultStatus
from flwr.supercore.task_identity import TaskIdentity

from f2ed.flower import helper_node
from f2ed.flower.helper_node import Couriers
from f2ed.flower.wire import reply_bytes, request_content
from f2ed.protocol.helpers.messages import Refused, decode


class Runtime:
    """Flower's API of a node, as far as a courier uses it."""

    def __init__(self, monkeypatch, failing=False):
        self.pushed, self.ended, self.closed = [], [], []
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 3, 5, 1
        self.message = Message(request_content(ConfigRecord({"hello": bytes(32)})), 5, "train")

        def pull(_client):
            if failing:
                raise RuntimeError("no message")
            return self.message, Context(3, 5, {}, RecordDict(), {}), None, None

        client = SimpleNamespace(close=lambda: self.closed.append(True))
        heartbeat = SimpleNamespace(start=lambda: None, stop=lambda: None)
        for name, new in {
            "RuntimeHttpClient": SimpleNamespace(from_server_address=lambda **_: client),
            "HeartbeatSender": lambda _: heartbeat,
            "make_task_heartbeat_fn_http": lambda _: None,
            "pull_task_input": pull,
            "push_message": lambda _client, reply, _context: self.pushed.append(reply_bytes(reply)),
            "push_task_output": lambda *given: self.ended.append(given[2:]),
        }.items():
            monkeypatch.setattr(helper_node, name, new)


def spec(kind=TaskType.CLIENT_APP):
    return SimpleNamespace(task_type=kind, runtime_api_address="127.0.0.1:1", token="token")  # noqa: S106  of a test


def test_a_message_goes_to_the_socket_and_the_reply_back(monkeypatch, tmp_path):
    runtime = Runtime(monkeypatch)
    Couriers(str(tmp_path / "none.sock"))._carry(spec())
    (reply,) = runtime.pushed
    assert decode((Refused,), reply).reason == "the helper behind this node gave no answer"
    assert runtime.ended == [("completed", "")]
    assert runtime.closed


def test_a_message_that_fails_ends_its_task_and_not_the_node(monkeypatch, tmp_path):
    runtime = Runtime(monkeypatch, failing=True)
    Couriers(str(tmp_path / "none.sock"))._carry(spec())
    assert (runtime.pushed, runtime.ended) == ([], [("failed", "")])


@pytest.mark.parametrize("kind", sorted(set(TaskType) - {TaskType.CLIENT_APP}))
def test_nothing_but_messages_to_clients_is_taken(kind):
    couriers = Couriers("none.sock")
    assert couriers.launch(spec(kind)).status == LaunchResultStatus.FAILED
    assert couriers.get_eligible_capacity(set(TaskType)) == ({TaskType.CLIENT_APP}, set())
