"""Processes on this machine: finding commands, free ports and descendants, waiting for them, and killing them."""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from f2ed.core.errors import ConfigError, PeerError

__all__ = ["HOST", "PATIENCE", "descendants", "environment", "free_ports", "kill_each", "tool", "until_it_answers"]

HOST = "127.0.0.1"
PATIENCE = 120.0
"""Seconds that a process may take to start or stop."""


def tool(name: str) -> list[str]:
    """Return the path of one of Flower's commands: beside this Python, or on the PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ConfigError(f"the command {name} is not installed; run: pip install 'f2ed[flower]'")
    return [found]


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a trial's processes: Flower writes into this folder, and reaches no other host."""
    return os.environ | {
        "FLWR_HOME": str(folder / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        # Flower starts its parts by name.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def free_ports() -> Iterator[int]:
    """Yield distinct free ports on loopback.

    They lie below those that the system assigns to outgoing connections, so the port of a process that is slow to start
    stays free.
    """
    lowest, count = 20_000, 12_000
    for place in range(count):
        port = lowest + (os.getpid() * 97 + place) % count
        if _is_free(port):
            yield port
    raise ConfigError(f"no port from {lowest} to {lowest + count - 1} is free on {HOST}; stop some programs")


def descendants(parents: Iterable[int]) -> list[int]:
    """Return all descendants of these processes."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False)  # noqa: S607
    pairs = [(int(pid), int(parent)) for pid, parent in map(str.split, listed.stdout.splitlines())]
    found, nearest = [], set(parents)
    while nearest := {pid for pid, parent in pairs if parent in nearest}:
        found += sorted(nearest)
    return found


def kill_each(processes: Iterable[int]) -> None:
    """Kill processes; some may have ended already."""
    for each in processes:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def until_it_answers(process: "subprocess.Popen[bytes]", port: int, ca: Path, log: Callable[[], str]) -> None:
    """Wait until a SuperLink answers with TLS, or raise `PeerError` with the end of its log."""
    trusted = ssl.create_default_context(cafile=str(ca))
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if process.poll() is not None:
            raise PeerError(f"the SuperLink ended at once: {log().strip()[-500:]}")
        with (
            suppress(OSError),
            socket.create_connection((HOST, port), timeout=5) as plain,
            trusted.wrap_socket(plain, server_hostname=HOST),
        ):
            return
        time.sleep(0.2)
    raise PeerError(f"the SuperLink did not answer within {PATIENCE:g} s; see its log")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
