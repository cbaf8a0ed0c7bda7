"""A reply that is still on its way, or never arrives whole, delays no other."""

import threading
from unittest.mock import ANY

import pytest
from flwr.app import Error, RecordDict
from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.common import now
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid

from f2ed.core.errors import PeerError
from f2ed.flower import pulls
from f2ed.flower.transport import Connection, Question
from f2ed.flower.wire import reply_bytes


def reply_to(message, error=None):
    about = Metadata(1, "", 2, 1, message, "", now().timestamp(), 10.0, "train")
    return make_message(about, error=error) if error else make_message(about, content=RecordDict())


class HalfSent(HttpGrid):
    """Flower's grid over a network on which the replies of some nodes never arrive whole."""

    def __init__(self, *, stuck):
        super().__init__("127.0.0.1:1", insecure=True, token="token")  # noqa: S106
        self.asked = []
        self.rest = threading.Event()
        self._stuck = stuck

    def push_messages(self, messages):
        return [f"to {message.metadata.dst_node_id}" for message in messages]

    def pull_messages(self, message_ids):
        (message,) = message_ids
        self.asked.append(message)
        if message in self._stuck:
            assert self.rest.wait(30)
        return [reply_to(message)]


@pytest.fixture
def grid(monkeypatch):
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    monkeypatch.setattr(pulls, "_PATIENCE", 0.05)
    monkeypatch.setattr(pulls, "_SPARING_PATIENCE", 0.05)
    found = HalfSent(stuck=["to 1", "to 2"])
    yield found
    found.rest.set()


def test_a_reply_that_is_not_whole_yet_delays_no_other_and_comes_once(grid):
    connection = Connection(grid)
    questions = {node: Question(RecordDict(), 20.0, lambda: 20.0) for node in (1, 2, 3, 4)}
    answers = connection.ask(questions, group="1")
    assert [next(answers)[0] for _ in range(2)] == [3, 4]
    grid.rest.set()
    assert sorted(node for node, *_ in answers) == [1, 2]
    assert sorted(grid.asked) == ["to 1", "to 2", "to 3", "to 4"]


def test_a_server_that_spares_memory_holds_two_replies_at_most(grid):
    pull, whole = pulls.Pulls(grid, sparing=True), []
    assert [pull([f"to {node}"]) for node in (1, 3)] == [[], [ANY]]
    second = threading.Thread(target=lambda: whole.extend(pull(["to 2"])))
    second.start()
    second.join(0.2)
    assert second.is_alive()
    assert grid.asked == ["to 1", "to 3", "to 2"]
    grid.rest.set()
    second.join()
    assert len(whole) == len(pull(["to 1"])) == 1


def test_a_reply_that_never_arrives_whole_is_late(grid):
    connection = Connection(grid)
    asked = {node: Question(RecordDict(), 0.2, lambda: 0.2) for node in (1, 3)}
    assert [node for node, *_ in connection.ask(asked, group="1")] == [3]
    assert connection.late_replies() == []
    grid.rest.set()


def test_an_error_of_the_grid_is_raised_where_the_reply_is_waited_for(grid):
    def broken(_ids):
        raise ConnectionError("no SuperLink")

    grid.pull_messages = broken
    with pytest.raises(ConnectionError, match="no SuperLink"):
        pulls.Pulls(grid, sparing=False)(["to 3"])


def test_a_reply_that_broke_off_is_named_as_such():
    error = Error(code=5, reason="Reply message objects are unavailable. The sender may not have completed the upload")
    with pytest.raises(PeerError, match="its reply broke off: its node ended or lost its connection while it sent it"):
        reply_bytes(reply_to("to 1", error))
