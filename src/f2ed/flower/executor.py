"""Starts a process for each message of a node, in place of `flower-superexec`, perhaps as another user.

    python -P -m f2ed.flower.executor ADDRESS PRELOAD    with the secret, in hexadecimal, as its input, which stays open

It takes ClientApps alone. Their processes are forked from one that has imported PRELOAD (`f2ed.flower.fork_server`).
Every process gets a new, empty folder to unpack its app into: Flower takes a folder that is there already for the app,
by 32 bits of its hash, and one app could leave it for another.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from logging import getLogger
from pathlib import Path
from typing import final

from flwr.supercore.constant import TaskType
from flwr.supercore.superexec import run_superexec
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult

from f2ed.deployment.dumps import forbid_dumps
from f2ed.flower.fork_server import ForkedProcess, ForkServer, reap_orphans
from f2ed.flower.preload import modules_to_preload
from f2ed.flower.replaced import replace

__all__ = ["AppProcesses", "execute", "main"]

_log = getLogger("f2ed.flower")

_POLL = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"


def main() -> None:
    """Run until the node ends, which closes the input: a process of another user cannot be watched by its number."""
    secret = bytes.fromhex(sys.stdin.readline())

    def watch() -> None:
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
    execute(*sys.argv[1:], secret=secret)


def execute(address: str, preload: str, *, secret: bytes) -> None:
    """Take the tasks of the node at this address, which shares the secret."""
    modules = modules_to_preload(preload)
    forbid_dumps()
    os.environ.setdefault(_POLL, "0.25")
    server = None if modules is None else ForkServer(modules)
    if server is not None:
        server.start()
    replace(run_superexec, "get_executor", lambda *_args, **_settings: AppProcesses(server))
    run_superexec.run_superexec(address, insecure=True, superexec_auth_secret=secret)


@final
class AppProcesses:
    """Flower's protocol `Executor`: the processes of apps, each with a folder of its own."""

    def __init__(self, server: ForkServer | None = None) -> None:
        self._server = server
        self._running: list[tuple[subprocess.Popen[bytes] | ForkedProcess, Path]] = []

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
        """Start the process of a task."""
        if spec.task_type != TaskType.CLIENT_APP or spec.runtime_dependency_install:
            return LaunchResult.failed("this node runs ClientApps alone, and installs no packages for them")
        home = Path(tempfile.mkdtemp(prefix="f2ed-app-"))
        given = (spec.runtime_api_address, home, spec.token)
        forked = None if self._server is None else self._server.fork(*given)
        self._running.append((forked or _started(*given), home))
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        """Remove the folders of processes that have ended."""
        ended = [each for each in self._running if each[0].poll() is not None]
        self._running = [each for each in self._running if each not in ended]
        for process, home in ended:
            if process.returncode:
                _log.error("f2ed: %s", _how_it_ended(process.returncode))
            shutil.rmtree(home, ignore_errors=True)
        if self._server is not None:
            self._server.keep_running()
            reap_orphans([process.pid for process, _ in self._running] + [self._server.pid or 0])

    def close(self) -> None:
        """End all processes."""
        for process, home in self._running:
            process.kill()
            process.wait()
            shutil.rmtree(home, ignore_errors=True)
        self._running.clear()
        if self._server is not None:
            self._server.close()


def _started(address: str, home: Path, token: str) -> subprocess.Popen[bytes]:
    """Return a process that imports everything by itself."""
    command = [sys.executable, "-P", "-m", "f2ed.flower.app_process", address, str(os.getpid())]
    process = subprocess.Popen(  # noqa: S603  our own command
        command, stdin=subprocess.PIPE, cwd=home, env=os.environ | {"FLWR_HOME": str(home)}
    )
    assert process.stdin is not None  # noqa: S101  it was asked for
    with suppress(BrokenPipeError), process.stdin as given:  # It may have been killed; its status will tell.
        given.write(token.encode() + b"\n")
    return process


def _how_it_ended(status: int) -> str:
    """Return what an operator is told about an app's process that failed."""
    how = f"was killed by signal {-status} ({signal.Signals(-status).name})" if status < 0 else f"ended with {status}"
    return (
        f"the process of the app {how} before it answered, so this node misses this step; with SIGKILL, see whether "
        "the machine ran out of memory"
        if status == -signal.SIGKILL
        else f"the process of the app {how} before it answered, so this node misses this step"
    )


if __name__ == "__main__":
    main()
