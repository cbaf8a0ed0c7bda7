"""Where a client stores its protocol state between two messages.

A state that could answer one round twice would give the update away: the difference of two answers under the same
masks is not secret. So a node keeps its state in a file, locked while a message is answered and written before the
reply leaves. A file of another boot, or a copy from a backup, counts as lost: the client makes new keys.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger
from pathlib import Path
from typing import Protocol, final

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.core.files import Lock, locked
from f2ed.deployment.key_memory import boot_id, written_here

__all__ = ["Desk", "FileStore", "Kept", "Store", "decode_kept"]

_log = getLogger("f2ed.deployment")

_MOST_JOBS = 2
"""Jobs of one serial whose keys are kept: this one, and another at the same time."""


@final
class Kept(msgspec.Struct, frozen=True, array_like=True):
    """The stored state of one job."""

    state: bytes = b""
    model: bytes = b""
    """The digest of the model and the settings that the round under way is bound to."""
    under_way: tuple[int, int, bytes] | None = None
    """Round, shard and context of the round under way, for the log."""

    def __repr__(self) -> str:
        """Show no secret."""
        return "Kept(state=<secret>)"


@final
class _File(msgspec.Struct, frozen=True, array_like=True):
    """A state with the boot and the time of its writing."""

    boot: str
    at: int
    kept: bytes


class Store(Protocol):
    """Opens the state of a job while one message is answered."""

    @contextmanager
    def open(self, job: str) -> Iterator["Desk"]:
        """Give exclusive access to the state."""
        ...


class Desk(Protocol):
    """The state while a message is answered."""

    def read(self) -> Kept:
        """Return the stored state, or an empty one."""
        ...

    def write(self, kept: Kept) -> None:
        """Store it; once this returns, a crash no longer loses it, and no other process holds the state before it."""
        ...


@final
class FileStore:
    """Stores the states of a node's jobs in a folder that only its user may enter.

    A federation is named by its lineage; with a new serial of its roster, all states of earlier ones are erased.
    """

    def __init__(self, folder: Path, lineage: str = "none", serial: int = 0) -> None:
        self._folder = folder
        self._lineage, self._serial = lineage, serial

    @contextmanager
    def open(self, job: str) -> Iterator["_OpenFile"]:
        """Lock the job: a second message waits until the first is answered."""
        name = hashlib.sha256(job.encode()).hexdigest()[:32]
        path = self._folder / f"keys-{self._lineage}-{self._serial}-{name}"
        with locked(path, remedy="name another folder with f2ed-keys in the node config") as lock:
            yield _OpenFile(path, lock)
        self._forget_old(path)

    def forget(self) -> int:
        """Erase all keys of this federation, and return how many jobs had any. Running jobs make new keys."""
        return sum(map(_erased, self._states()))

    def _states(self) -> list[Path]:
        return [path for path in self._folder.glob(f"keys-{self._lineage}-*") if not path.suffix]

    def _forget_old(self, current: Path) -> None:
        """Erase what is no longer used. If such a job continues, its client starts with new keys: no mask repeats."""
        serials = {path: int(path.name.split("-")[2]) for path in self._states()}
        mine = [path for path, serial in serials.items() if serial == self._serial]
        newest = sorted(mine, key=lambda path: (path == current, _modified(path)), reverse=True)
        for path in (*(path for path, serial in serials.items() if serial < self._serial), *newest[_MOST_JOBS:]):
            _erased(path)


@final
class _OpenFile:
    def __init__(self, path: Path, lock: Lock) -> None:
        self._path = path
        self._lock = lock

    def read(self) -> Kept:
        try:
            file = _decode_file(self._path)
        except FileNotFoundError:
            return Kept()
        if not written_here(self._path, boot=file.boot, at=file.at):
            _log.warning("f2ed: the keys in %s are of another boot or from a backup; new ones are made", self._path)
            return Kept()
        return decode_kept(file.kept, str(self._path))

    def write(self, kept: Kept) -> None:
        file = _File(boot_id(), time.time_ns(), msgspec.msgpack.encode(kept))
        self._lock.write(self._path, msgspec.msgpack.encode(file))


def decode_kept(data: object, where: str) -> Kept:
    """Read a kept state, or raise `ConfigError` if it is damaged."""
    try:
        return msgspec.msgpack.decode(bytes(data), type=Kept)  # type: ignore[call-overload]  # bytes, or it fails
    except (ValueError, TypeError) as error:
        raise ConfigError(f"the kept state in {where} cannot be read ({error}); delete it to start over") from None


def _decode_file(path: Path) -> _File:
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=_File)
    except ValueError as error:
        raise ConfigError(f"the kept state in {path} cannot be read ({error}); delete it to start over") from None


def _modified(path: Path) -> int:
    """Return when a file was written; another process may have erased it meanwhile."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _erased(path: Path) -> bool:
    """Erase a file; say whether there was one."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
