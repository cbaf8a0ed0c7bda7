"""Two real processes of one node, and a lock file that somebody removes while it is in use."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from f2ed import PeerError
from f2ed.protocol.secagg.messages import AskUpload, Upload, read_reply, write
from tests.flower.test_flower_client import RUN, Shard

# One process of a node: it says when it trains, waits for a line, and writes its reply to a file.
PROCESS = """
import sys, warnings
warnings.simplefilter("ignore")
import msgspec
from pathlib import Path
from flwr.app import ConfigRecord, Message
from f2ed.flower.wire import reply_bytes, request_content
from tests.flower.fake_grid import FakeGrid, Node, model, user_app
warnings.simplefilter("default")
job = msgspec.msgpack.decode(sys.stdin.buffer.read(int(sys.argv[1])))
def wait(message, context):
    print("training", flush=True)
    sys.stdin.readline()
node = Node(job["client"], user_app(fault=wait), job["settings"])
FakeGrid([node], job["run"])
content = request_content(ConfigRecord(job["record"]), arrays=model(), config=ConfigRecord({"server-round": 1}))
message = Message(content, 5, "train")
message.metadata.__dict__["_message_id"] = "a message"
Path(job["reply"]).write_bytes(reply_bytes(node.answer(5, job["run"], message)))
"""


class Process:
    """A second process of a node, as a supervisor might start by mistake."""

    def __init__(self, job):
        self.reply = Path(job["reply"])
        data = msgspec.msgpack.encode(job)
        self._child = subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(len(data))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._child.stdin.write(data)
        self._child.stdin.flush()

    def trains(self):
        return self._child.stdout.readline() == b"training\n"

    def finish(self):
        self._child.communicate(b"\n", timeout=120)
        try:
            return read_reply(Upload, self.reply.read_bytes(), payload=10**6)
        except PeerError as error:
            return str(error)


@pytest.mark.parametrize("order", ["first", "second"])
def test_a_lock_file_that_is_removed_does_not_let_two_processes_answer_one_round(tmp_path, order):
    shard = Shard(tmp_path)
    terms = shard.terms()
    client, keys = terms.members[0], shard.keys(terms)
    job = {
        "client": client,
        "settings": shard.settings[client],
        "run": RUN,
        "record": {"request": write(AskUpload(terms, *keys))},
    }
    first = Process(job | {"reply": str(tmp_path / "first")})
    assert first.trains()
    for lock in (tmp_path / f"client_{client}.state").glob("*.lock"):
        lock.unlink()
    second = Process(job | {"reply": str(tmp_path / "second")})
    assert second.trains()
    processes = [first, second] if order == "first" else [second, first]
    replies = [process.finish() for process in processes]
    uploads = [reply for reply in replies if isinstance(reply, Upload)]
    assert len(uploads) == 1
    assert "this node cannot take part" in next(reply for reply in replies if isinstance(reply, str))
