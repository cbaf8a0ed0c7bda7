"""The SuperNode of a helper: it carries messages to `f2ed helper` and back, and runs no app.

    python -P -m f2ed.flower.helper_node SUPERLINK CA SOCKET PORT [KEY]    and runs as long as its input stays open

The SuperNode is Flower's own, in this process, but for the step between its two exchanges with the SuperLink: in place
of starting an app it takes each message to the helper's socket. The app of a run is not even fetched, so no code that a
server sends is run beside a helper, and an answer does not wait for a process to start.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from logging import getLogger
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, final

from flwr.app import Message
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree
from flwr.supercore.object_store import ObjectStore
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode import start_client_internal
from flwr.supernode.cli import flower_supernode
from flwr.supernode.nodestate import NodeState
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

from f2ed.core.files import write_atomic
from f2ed.flower.courier import carried
from f2ed.flower.launcher import QUIET, app_command, app_environment, quiet_flower
from f2ed.flower.processes import HOST
from f2ed.flower.replaced import replace

__all__ = ["Courier", "HelperNode", "main", "start_helper_node"]

_log = getLogger("f2ed.flower")

_PAUSE, _IDLE = 0.1, 1.0
"""Seconds between two looks for a message: in a run, and later. A round has about nine exchanges with helpers, one
after the other, and there are two such nodes in a federation."""
_RUNNING = 300.0
"""Seconds after a message for which the next one is looked for often."""


class HelperNode(NamedTuple):
    """How the node of a helper is started."""

    superlink: str
    root_certificates: Path
    socket: Path
    port: int
    """Of the node's own API on loopback."""
    auth_key: Path | None = None
    """The key with which it authenticates to the SuperLink."""

    @property
    def command(self) -> list[str]:
        """The command that runs it."""
        paths = [str(each.resolve()) for each in (self.root_certificates, self.socket)]
        key = [] if self.auth_key is None else [str(self.auth_key.resolve())]
        return [sys.executable, "-P", "-m", "f2ed.flower.helper_node", self.superlink, *paths, str(self.port), *key]


def start_helper_node(node: HelperNode, *, user: str = "") -> "subprocess.Popen[bytes]":
    """Start it, perhaps as another user; it ends with the process that started it, which holds its input open."""
    return subprocess.Popen(  # noqa: S603  our own command
        app_command(user, node.command), stdin=subprocess.PIPE, cwd="/", env=app_environment(os.environ, ())
    )


def main() -> None:
    """Run until the input is closed, or the SuperNode's loop ends."""
    superlink, certificates, path, port, *key = sys.argv[1:]
    threading.Thread(target=_watch, daemon=True).start()
    home = Path(tempfile.mkdtemp(prefix="f2ed-helper-"))
    os.environ |= {"FLWR_HOME": str(home), **QUIET}
    try:
        quiet_flower()
        Courier(path).take_over()
        write_atomic(home / "secret", os.urandom(32))
        sys.argv = [
            *("flower-supernode", "--superlink", superlink, "--root-certificates", certificates),
            *("--host", HOST, "--port", port),
            # Nothing is started to run apps.
            *("--isolation", "process", "--superexec-auth-secret-file", str(home / "secret")),
            *(("--auth-supernode-private-key", key[0]) if key else ()),
        ]
        flower_supernode()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _watch() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


@final
class Courier:
    """Takes messages to a helper, in place of storing them for an app."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._last = -_RUNNING
        self._seconds: dict[str, float] = {}
        """How long messages took whose replies are yet to be sent."""

    def take_over(self) -> None:
        """Take the place of what Flower does with a message in this process."""
        replace(start_client_internal, "_pull_and_store_message", self.answer)
        replace(start_client_internal, "time", SimpleNamespace(sleep=self.wait))
        # Flower knows the times of messages that it stored itself.
        replace(InMemoryNodeState, "get_message_processing_duration", lambda _, message_id: self.seconds(message_id))

    def seconds(self, message_id: str) -> float:
        """Return how long a message took, once."""
        return self._seconds.pop(message_id, 0.0)

    def wait(self, longest: float) -> None:
        """Wait for the next message, less long than Flower would."""
        running = time.monotonic() - self._last < _RUNNING
        time.sleep(min(longest, _PAUSE if running else _IDLE))

    def answer(
        self,
        *,
        state: NodeState,
        object_store: ObjectStore,
        receive: Callable[[], tuple[Message, ObjectTree] | None],
        pull_object: Callable[[int, str], bytes],
        confirm_message_received: Callable[[int, str], None],
        **_: object,
    ) -> int | None:
        """Answer the next message, and leave the reply where Flower looks for it; return its run, None without one.

        It has the signature of Flower's own function. Whatever fails, the node goes on: the server asks again.
        """
        try:
            found = receive()
            if found is None:
                return None
            self._last = time.monotonic()
            head, tree = found
            run, node = head.metadata.run_id, head.metadata.dst_node_id
            message = pull_and_inflate_object_from_tree(
                tree, partial(pull_object, run), partial(confirm_message_received, run), return_type=Message
            )
            message.metadata.__dict__["_message_id"] = tree.object_id
            TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run, node, 0
            reply = carried(message, self._path, run=run, node=node)
            self._seconds[tree.object_id] = time.monotonic() - self._last
            start_client_internal._insert_message(reply, state, object_store)  # noqa: SLF001  as Flower does it
        except Exception as error:  # noqa: BLE001  no message ends the node
            _log.error("f2ed: a message to the helper failed", exc_info=error)
            return None
        return run


if __name__ == "__main__":
    main()
