"""Where a node's protocol keys live: in memory where the system has a file system for that, and bound to this boot.

A disk that is restored from a backup must not bring back keys that have masked an update: two updates under the same
masks give away their difference. So keys go to a folder in memory, which no backup holds. Wherever they are, their file
records the boot and the time of its writing. The system stamps a copy with the time at which it is made, and no program
can set that stamp: a file that was restored is told from the one that was written, and its keys are not used.
"""

import hashlib
import os
import stat
import time
from logging import getLogger
from pathlib import Path

from f2ed.core.errors import ConfigError

__all__ = ["boot_id", "key_folder", "memory_folder", "written_here"]

_log = getLogger("f2ed.deployment")

_SHARED = Path("/dev/shm")  # noqa: S108  the folder below is created for this user alone, and checked
_MOUNTS = Path("/proc/self/mounts")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_IN_MEMORY = {"tmpfs", "ramfs"}
_SLOWEST_WRITE = 10 * 10**9
"""Nanoseconds between the recorded time and the system's stamp. A slower disk loses its keys: new ones are made."""


def key_folder(state: Path) -> Path:
    """Return where the keys of a node go whose other state is in a folder: in memory, or else on its disk."""
    folder = memory_folder(state)
    if folder is None:
        _log.warning(
            "f2ed: no folder in memory on this system, so the keys of a round are stored in %s; a reader of the disk "
            "afterwards may find keys that were overwritten. Name a folder in memory with f2ed-keys in the node config",
            state,
        )
        return state
    return folder


def memory_folder(state: Path) -> Path | None:
    """Return this node's own folder in memory, made for this user alone; None where the system has none."""
    if not _in_memory(_SHARED):
        return None
    mine = _SHARED / f"f2ed-{os.getuid()}"
    mine.mkdir(mode=0o700, exist_ok=True)
    found = mine.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ConfigError(
            f"{mine} is not a folder that this user alone may enter; remove it, or name another one with f2ed-keys in "
            "the node config"
        )
    return mine / hashlib.sha256(str(state.resolve()).encode()).hexdigest()[:32]


def boot_id() -> str:
    """Return what identifies the machine since it was started; empty on systems that do not tell."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def written_here(path: Path, *, boot: str, at: int) -> bool:
    """Return whether a file is the one that was written in this boot at this time, and not a copy of it."""
    return boot == boot_id() and abs(path.stat().st_ctime_ns - at) <= _SLOWEST_WRITE and at <= time.time_ns()


def _in_memory(folder: Path) -> bool:
    """Return whether a folder is the root of a file system in memory; the last mount on it counts."""
    try:
        mounts = [line.split(" ") for line in _MOUNTS.read_text().splitlines()]
    except OSError:
        return False
    kinds = [kind for _, place, kind, *_ in mounts if place == str(folder)]
    return bool(kinds) and kinds[-1] in _IN_MEMORY and os.access(folder, os.W_OK | os.X_OK)
