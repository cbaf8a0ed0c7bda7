"""Processes on this machine: finding commands, free ports and descendants, and killing them."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from f2ed.core.errors import ConfigError

__all__ = ["HOST", "descendants", "free_ports", "kill_each", "tool"]

HOST = "127.0.0.1"


def tool(name: str) -> list[str]:
    """Return the path of one of Flower's commands: beside this Python, or on the PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ConfigError(f"the command {name} is not installed; run: pip install 'f2ed[flower]'")
    return [found]


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


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
