"""Files that survive a crash: whole or not at all, and one writer at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from f2ed.core.errors import ConfigError

__all__ = ["locked", "write_atomic"]


@contextmanager
def locked(path: Path, what: str, setting: str) -> Iterator[None]:
    """Hold the lock beside a file, in a folder that only this user may enter; whoever else wants it waits."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(
            f"{what} cannot be kept in {path.parent}: {error.strerror}; name another place with {setting} in its "
            "node-config"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file so that a crash leaves the old one or the new one, and return when it is on the disk."""
    beside = path.with_name(path.name + ".new")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
