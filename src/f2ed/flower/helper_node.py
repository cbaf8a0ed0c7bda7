"""The SuperNode of a helper: it carries messages to `f2ed helper` and back, and runs no app.

    python -P -m f2ed.flower.helper_node SUPERLINK CA SOCKET PORT [KEY]    and runs as long as its input stays open

The SuperNode is Flower's own, in this process. In place of the process that would unpack and run the app of a run, a
thread here takes each message to the helper's socket. So no code that a server sends is run beside a helper.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from logging import getLogger
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, final

from flwr.common.constant import SubStatus
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.superexec import run_superexec
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult
from flwr.supernode import start_client_internal
from flwr.supernode.cli import flower_supernode
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from f2ed.core.files import write_atomic
from f2ed.deployment.helper_agent import HELPER
from f2ed.flower.courier import carried
from f2ed.flower.launcher import QUIET, app_command, app_environment, quiet_flower
from f2ed.flower.processes import HOST
from f2ed.flower.replaced import replace

__all__ = ["Couriers", "HelperNode", "main", "start_helper_node"]

_log = getLogger("f2ed.flower")

_PAUSE = 0.1
"""Seconds between two looks for a message. A round has about nine exchanges with helpers, one after the other, and
there are two such nodes in a federation."""


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
        replace(start_client_internal, "time", SimpleNamespace(sleep=lambda longest: time.sleep(min(longest, _PAUSE))))
        secret = os.urandom(32)
        write_atomic(home / "secret", secret)
        threading.Thread(target=_serve, args=(f"{HOST}:{port}", secret, path), daemon=True).start()
        sys.argv = [
            *("flower-supernode", "--superlink", superlink, "--root-certificates", certificates),
            *("--host", HOST, "--port", port),
            *("--isolation", "process", "--superexec-auth-secret-file", str(home / "secret")),
            *(("--auth-supernode-private-key", key[0]) if key else ()),
        ]
        flower_supernode()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _watch() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _serve(address: str, secret: bytes, path: str) -> None:
    """Take the tasks of the node in this process."""
    os.environ["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"] = str(_PAUSE)
    replace(run_superexec, "get_executor", lambda *_args, **_settings: Couriers(path))
    replace(run_superexec, "register_signal_handlers", lambda **_settings: None)  # Only the main thread may do that.
    try:
        run_superexec.run_superexec(address, insecure=True, superexec_auth_secret=secret)
    finally:
        _log.error("f2ed: the courier of this helper's node has ended; the node stops")
        os.kill(os.getpid(), signal.SIGTERM)


@final
class Couriers:
    """Flower's protocol `Executor`: takes messages to a helper, in place of starting an app."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get_eligible_capacity(
        self,
        supported_task_types: set[TaskType],
        *,
        insecure: bool = False,  # noqa: ARG002  Flower's signature
        root_certificates_path: str | None = None,  # noqa: ARG002
    ) -> tuple[set[TaskType], set[str]]:
        """Return the kinds of tasks that are asked for."""
        return supported_task_types & {TaskType.CLIENT_APP}, set()

    def wait_for_capacity(
        self,
        task_type: TaskType | None = None,
        *,
        fab_hash: str | None = None,
        insecure: bool = False,
        root_certificates_path: str | None = None,
    ) -> None:
        """Return at once: a node has one message at a time."""

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        """Take a task's message to the helper, while the next one may be asked for."""
        if spec.task_type != TaskType.CLIENT_APP:
            return LaunchResult.failed("the node of a helper runs nothing")
        threading.Thread(target=self._carry, args=(spec,), daemon=True).start()
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        """Do nothing: there are no processes."""

    def close(self) -> None:
        """Do nothing: there are no processes."""

    def _carry(self, spec: ExecutionSpec) -> None:
        client = RuntimeHttpClient.from_server_address(
            server_address=spec.runtime_api_address,
            insecure=True,
            root_certificates=None,
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name="flwr-clientapp"),
                RuntimeTokenHttpInterceptor(spec.token),
            ],
            retry_invoker=make_simple_http_retry_invoker(),
        )
        heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(client))
        heartbeat.start()
        context, ended = None, SubStatus.FAILED
        try:
            message, context, _, _ = pull_task_input(client)
            context.node_config = {HELPER: self._path}
            push_message(client, carried(message, context), context)
            ended = SubStatus.COMPLETED
        except Exception as error:  # noqa: BLE001  no message ends the node
            _log.error("f2ed: a message to the helper failed", exc_info=error)
        finally:
            push_task_output(client, context, ended, "")
            heartbeat.stop()
            client.close()


if __name__ == "__main__":
    main()
