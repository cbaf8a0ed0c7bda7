"""Where a client stores its protocol state between two messages.

A state that could answer one round twice would give the update away: the difference of two answers under the same
masks is not secret. So a node keeps its state in a file, locked while a message is answered and written before the
reply leaves.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, final

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.core.files import Lock, locked

__all__ = ["Desk", "FileStore", "Kept", "Store", "decode_kept"]

_MOST_JOBS = 32


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
    """Stores the states of a node's jobs in a folder that only its user may enter."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def open(self, job: str) -> Iterator["_File"]:
        """Lock the job: a second message waits until the first is answered."""
        path = self._folder / hashlib.sha256(job.encode()).hexdigest()[:32]
        with locked(path, remedy="name another folder with f2ed-state in the node config") as lock:
            yield _File(path, lock)
        _forget_old(self._folder)


@final
class _File:
    def __init__(self, path: Path, lock: Lock) -> None:
        self._path = path
        self._lock = lock

    def read(self) -> Kept:
        try:
            return decode_kept(self._path.read_bytes(), str(self._path))
        except FileNotFoundError:
            return Kept()

    def write(self, kept: Kept) -> None:
        self._lock.write(self._path, msgspec.msgpack.encode(kept))


def decode_kept(data: object, where: str) -> Kept:
    """Read a kept state, or raise `ConfigError` if it is damaged."""
    try:
        return msgspec.msgpack.decode(bytes(data), type=Kept)  # type: ignore[call-overload]  # bytes, or it fails
    except (ValueError, TypeError) as error:
        raise ConfigError(f"the kept state in {where} cannot be read ({error}); delete it to start over") from None


def _forget_old(folder: Path) -> None:
    """Erase the states of the oldest jobs. If one continues, its client starts with new keys: no mask repeats."""
    states = sorted(folder.glob("[0-9a-f]" * 32), key=lambda path: path.stat().st_mtime)
    for path in states[:-_MOST_JOBS]:
        path.unlink(missing_ok=True)
