"""A mod in front of `protect` that lets a node fail where a test wants it to."""

import os
import signal
import time
from pathlib import Path

from flwr.app import Message
from flwr.common.serde import message_to_proto

from f2ed.flower.wire import OURS, reply_content
from f2ed.protocol.secagg.schemes import read_request
from sums.desk import Desk


def step_of(message):
    """Name the step that a message asks for."""
    ours = message.content.config_records.get(OURS)
    if ours is None:
        return "plain"
    return "hello" if "hello" in ours else type(read_request(ours["request"])).__name__


def obey(message, context, call_next):
    """Answer, unless there is another order; keep what came in and what went out."""
    if not context.run_config["desk"]:
        return call_next(message, context)
    desk, me, step = Desk(context.run_config["desk"]), context.node_config["partition-id"], step_of(message)
    number = message.metadata.message_id
    desk.record(f"wire/node_{me}", message_to_proto(message).SerializeToString())
    order = desk.take(f"orders/{me}.{step}")
    if order == "die":
        desk.put(f"lost/{number}")
        die()
    if order == "end-app":
        os.kill(os.getpid(), signal.SIGKILL)
    reply = call_next(message, context)
    if order == "end-app-after":
        os.kill(os.getpid(), signal.SIGKILL)
    if order == "garbage":
        reply = Message(reply_content(os.urandom(5000)), reply_to=message)
    desk.record(f"wire/node_{me}", message_to_proto(reply).SerializeToString())
    if order == "hold":
        desk.put(f"held/{me}.{step}")
        desk.wait(f"release/{me}.{step}")
    desk.put(f"sent/{me}.{step}", number)
    return reply


def hang():
    """Never return."""
    while True:
        time.sleep(3600)


def die():
    """End this node with all its processes, without a chance to say goodbye."""
    family, pid = [], os.getpid()
    while any(name in Path(f"/proc/{pid}/cmdline").read_bytes() for name in (b"f2ed.flower.", b"f2ed.cli\0node")):
        family.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    for each in reversed(family):
        os.kill(each, signal.SIGKILL)
    hang()
