"""Forks the process of each message from one that has imported what apps need, instead of starting Python each time.

    python -P -m f2ed.flower.fork_server MODULE ...    with a socket as its input, whose other end the executor holds

The fork server imports, and runs no app: what it forks is as new as a process that was started. A request brings the
pipe from which the new process reads its token; the server itself never reads it. A new process is orphaned at once and
the executor adopts it (a "child subreaper"), so that it is reaped as one that the executor started, and outlives the
server. Whatever goes wrong here, the executor says so and starts processes of its own.
"""

import ctypes
import gc
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from logging import getLogger
from pathlib import Path
from typing import final

import numpy as np

from f2ed.deployment.dumps import forbid_dumps
from f2ed.flower import app_process

__all__ = ["ForkServer", "ForkedProcess", "main", "reap_orphans", "serve"]

_log = getLogger("f2ed.flower")

_ALWAYS = ("httpcore",)
"""What Flower's client imports only when it is first used."""
_PATIENCE = 120.0
"""Seconds that the server may take to import its modules, or to answer."""
_LONGEST = 1 << 16
_PR_SET_CHILD_SUBREAPER = 36


@final
class ForkServer:
    """The executor's side: one server, which is started again when it has ended."""

    def __init__(self, modules: Sequence[str], *, program: Sequence[str] = ("-m", "f2ed.flower.fork_server")) -> None:
        self._command = [*program, *modules]
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """The server's number, while there is one."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it, and wait until it has imported everything; where that fails, say why and do without one."""
        if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            self._give_up("this system lets no process adopt another")
            return
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_PATIENCE)
        with theirs:
            self._process = subprocess.Popen([sys.executable, "-P", *self._command], stdin=theirs.fileno())  # noqa: S603
        try:
            answer = self._control.recv(_LONGEST).decode()
        except TimeoutError:
            answer = f"it took longer than {_PATIENCE:g} s"
        except ConnectionError:
            answer = ""
        if answer != "ready":
            self._give_up(answer or "its process ended at once")

    def fork(self, address: str, home: Path, token: str) -> "ForkedProcess | None":
        """Return a new process for a task, or None if the server has ended, hangs or is none."""
        if self._control is None:
            return None
        read, write = os.pipe()
        with os.fdopen(write, "wb", buffering=0) as given:
            try:
                request = json.dumps([address, os.getpid(), str(home)]).encode()
                socket.send_fds(self._control, [request], [read])
                answer = self._control.recv(_LONGEST)
            except OSError:
                answer = b""
            finally:
                os.close(read)
            if not answer.isdigit():
                # Without a token, a process that it may have forked ends at once.
                self._end()
                return None
            with suppress(BrokenPipeError):  # It may have been killed; its status will tell.
                given.write(token.encode() + b"\n")
        return ForkedProcess(int(answer))

    def keep_running(self) -> None:
        """Start the server again if it has ended."""
        if self._process is not None and self._process.poll() is not None:
            _log.warning("f2ed: the fork server has ended (status %s); starting another", self._process.returncode)
            self._end()
            self.start()

    def close(self) -> None:
        """End the server."""
        self._end()
        self._process = None

    def _give_up(self, why: str) -> None:
        self.close()
        _log.warning("f2ed: %s; without a fork server, each message waits for a new Python to import everything", why)

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@final
class ForkedProcess:
    """A process that this one has adopted, with the methods of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit status, or None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait for its end; return its exit status."""
        return self._reap(0)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def reap_orphans(known: Iterable[int]) -> None:
    """Reap what apps had started and left behind: who adopts processes is the one to do so."""
    known = set(known)
    with suppress(ChildProcessError):
        # Look before reaping: the status of a process that is known is for its owner.
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid not in known:
            os.waitpid(ended.si_pid, 0)


def main() -> None:
    """Serve; in each process that is forked, run an app's process."""
    if serve(sys.argv[1:]):
        app_process.main()


def serve(modules: Sequence[str]) -> bool:
    """Import modules, then fork for each request; return True in what was forked, False when the executor has ended."""
    forbid_dumps()
    control = socket.socket(fileno=0)
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)  # An interrupt from a terminal is for the executor.
    why_not = _preload(modules)
    control.send(why_not.encode() or b"ready")
    if why_not:
        return False
    gc.collect()
    gc.freeze()  # Collecting what was imported would copy its pages into every process.
    while True:
        request, files, *_ = socket.recv_fds(control, _LONGEST, 1)
        if not request:
            return False
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            pid = _fork_orphan()
        except OSError as error:
            control.send(str(error).encode())
            pid = None
        if pid == 0:
            signal.signal(signal.SIGINT, interrupted)
            control.detach()
            os.dup2(files[0], 0)
            os.close(files[0])
            _become_new(*json.loads(request))
            return True
        os.close(files[0])
        if pid is not None:
            control.send(str(pid).encode())


def _preload(modules: Sequence[str]) -> str:
    """Import modules; return why no process should be forked afterwards, or an empty string."""
    for name in (*_ALWAYS, *modules):
        try:
            import_module(name)
        except BaseException as error:  # noqa: BLE001  whatever it is, it is told
            told = " ".join(str(error).split())[:200]
            return f"{name} cannot be imported ({type(error).__name__}: {told})"
    named = f"importing {', '.join(modules) or 'Flower'}"
    if threading.active_count() > 1:
        return f"{named} started a thread, which forked processes would lack"
    with warnings.catch_warnings():
        # Python 3.12 warns of other threads at a fork. OpenBLAS stops its own before one and starts them when it needs
        # them; whether there are others is what the next lines find out.
        warnings.filterwarnings("ignore", r"This process .* is multi-threaded", DeprecationWarning)
        trial = os.fork()
    if trial == 0:
        torch = sys.modules.get("torch")
        os._exit(torch is not None and torch.cuda._is_in_bad_fork())  # noqa: SLF001  what torch itself asks
    if os.waitpid(trial, 0)[1]:
        return f"{named} used CUDA, which forked processes could not use again"
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        return f"{named} started a native thread, which forked processes would lack"
    return ""


def _fork_orphan() -> int:
    """Fork a process and return its number once it is adopted; return 0 in there."""
    read, write = os.pipe()
    between = os.fork()
    if between == 0:
        os.close(read)
        try:
            pid = os.fork()
        except OSError:
            os._exit(1)
        if pid:
            os.write(write, str(pid).encode())
            os._exit(0)
        os.close(write)
        return 0
    os.close(write)
    told = os.read(read, 20)
    os.close(read)
    os.waitpid(between, 0)
    if not told:
        raise BlockingIOError("no process could be forked")
    return int(told)


def _become_new(address: str, parent: int, home: str) -> None:
    """Give this process what a new one would have: its arguments and folder, and random numbers of its own."""
    sys.argv[1:] = [address, str(parent)]
    os.environ["FLWR_HOME"] = home
    os.chdir(home)
    random.seed()
    np.random.seed()  # noqa: NPY002  the generator that an app may use
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.seed()
    multiprocessing.current_process().authkey = os.urandom(32)


if __name__ == "__main__":
    main()
