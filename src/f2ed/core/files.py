"""Files that survive a crash: written whole or not at all, appended durably, with one writer at a time."""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Generic, NamedTuple, TypeAlias, TypeVar, final

import msgspec

from f2ed.core.errors import BusyError, ConfigError

__all__ = [
    "Held",
    "Lock",
    "StoredValue",
    "append",
    "is_held",
    "locked",
    "unwritable",
    "write_atomic",
    "write_or_refuse",
]

_POLL_SECONDS = 0.25

Value = TypeVar("Value")
Content: TypeAlias = bytes | Iterable[bytes | memoryview]
"""Of a file: whole, or in parts."""


def write_atomic(path: Path, data: Content, *, mode: int = 0o600) -> None:
    """Replace a file so that a crash leaves the old one or the new one, and return once it is on the disk.

    Data may come in parts, so that they need not be in memory as a whole.
    Only the owner may read the new file unless `mode` (minus the umask) says otherwise.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    fresh = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            _write_through(file.fileno(), data)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_or_refuse(path: Path, data: Content, *, mode: int = 0o600, what: str = "") -> None:
    """Replace a file as `write_atomic` does, or raise `ConfigError`, which says `what` file it is and what to do."""
    try:
        write_atomic(path, data, mode=mode)
    except OSError as error:
        raise ConfigError(unwritable(path, error, what)) from None


def unwritable(path: Path, error: OSError, what: str = "") -> str:
    """Return what an operator is told about a file that cannot be written."""
    named = f"{what} {path}" if what else str(path)
    return f"{named} cannot be written: {error.strerror}; make room, or let this user write there"


def append(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Add to the end of a file, which is created if it is missing, and return once it is on the disk."""
    new = not path.exists()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode), "ab") as file:
        _write_through(file.fileno(), data)
    if new:
        _sync_folder(path.parent)


class Lock(NamedTuple):
    """A lock that this process holds, for as long as its file stays where it is."""

    path: Path
    handle: int

    def check(self) -> None:
        """Raise `ConfigError` if the lock file was removed or replaced: another process may hold the new one."""
        if not _is_current(self.path, self.handle):
            raise ConfigError(
                f"{self.path} was removed or replaced while in use, and another process may have taken over; nothing "
                "more is written or sent. Let nothing clean up this folder"
            )

    def write(self, path: Path, data: bytes, *, mode: int = 0o600) -> None:
        """Replace a file of the same folder as `write_atomic` does; it counts only once this returns.

        The check before keeps a process that lost its lock from overwriting a later state. The check after shows that
        nobody else could take the lock, and read the old state, before the new one was in place. Between the two the
        folder itself is locked, so another process cannot write there meanwhile.
        """
        with _folder_locked(path.parent):
            self.check()
            write_or_refuse(path, data, mode=mode)
        self.check()


@contextmanager
def locked(path: Path, *, remedy: str, wait: float | None = None) -> Iterator[Lock]:
    """Hold the lock of a file; wait for it, at most `wait` seconds if given, then raise `BusyError`.

    The lock is a file beside it that ends in .lock and covers all files of the same stem. It is empty and stays there:
    who removes a lock file lets a second process in. The lock ends with the process that holds it, so unfinished writes
    that are found were cut off by a crash and are removed. A missing folder is created for this user only. `remedy`
    completes the sentence "wait, or …" of the errors.
    """
    lock = path.with_suffix(".lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = _acquire(lock, None if wait is None else time.monotonic() + wait)
    except OSError as error:
        raise ConfigError(f"{lock} cannot be created: {error.strerror}; {remedy}") from None
    if held is None:
        raise BusyError(f"another process is using {path}; wait until it has finished, or {remedy}")
    try:
        with _folder_locked(path.parent):
            for unfinished in path.parent.glob(f"{escape(path.stem)}.*.new"):
                unfinished.unlink(missing_ok=True)
        yield Lock(lock, held)
    finally:
        os.close(held)


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock of a file, as `locked` takes it; this takes it for a moment itself."""
    try:
        handle = os.open(path.with_suffix(".lock"), os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"the lock of {path} cannot be read: {error.strerror}; run this as its user") from None
    try:
        return not _flock(handle, time.monotonic())
    finally:
        os.close(handle)


@final
class StoredValue(msgspec.Struct, Generic[Value], frozen=True):
    """A small value in a file as JSON, with one writer at a time; a damaged file is refused, not replaced.

    Values of one stem share a lock: do not hold two of them at once.
    """

    path: Path
    kind: type[Value]
    what: str
    """Names the value in errors, as in "the last round"."""
    repair: str
    """What to do with a damaged file."""
    remedy: str
    """As in `locked`."""
    decode: Callable[[bytes], Value] | None = None
    """Reads the bytes, if something else than `kind` says how."""

    def read(self) -> Value | None:
        """Return the value, or None if there is none."""
        try:
            data = self.path.read_bytes()
            return msgspec.json.decode(data, type=self.kind) if self.decode is None else self.decode(data)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.what} in {self.path} cannot be read ({error}); {self.repair}") from None

    @contextmanager
    def hold(self, *, wait: float | None = None) -> "Iterator[Held[Value]]":
        """Lock the value, read it, and allow replacing it until the end of the block."""
        with locked(self.path, remedy=self.remedy, wait=wait) as lock:
            yield Held(self, lock, self.read())


class Held(NamedTuple, Generic[Value]):
    """A stored value while nobody else may write it."""

    place: StoredValue[Value]
    lock: Lock
    before: Value | None
    """The value when the lock was taken."""

    def write(self, value: Value) -> None:
        """Replace the value; it counts once this returns, and then survives a crash."""
        self.lock.write(self.place.path, msgspec.json.encode(value))


def _write_through(handle: int, data: Content) -> None:
    for part in [data] if isinstance(data, bytes) else data:
        left = memoryview(part)
        while left:
            left = left[os.write(handle, left) :]
    os.fsync(handle)


def _sync_folder(folder: Path) -> None:
    """Make a new name durable, on systems that can open a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _folder_locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which nobody can remove while there are files in it."""
    if not hasattr(os, "O_DIRECTORY"):
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        _flock(handle, None)
        yield
    finally:
        os.close(handle)


def _acquire(lock: Path, deadline: float | None) -> int | None:
    """Return a handle that holds the lock, or None after the deadline."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _flock(handle, deadline):
                os.close(handle)
                return None
            if _is_current(lock, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _flock(handle: int, deadline: float | None) -> bool:
    """Lock an open file; on systems without such locks, assume that no other process wants it."""
    try:
        import fcntl  # noqa: PLC0415  not on every system
    except ModuleNotFoundError:
        return True
    if deadline is None:
        fcntl.flock(handle, fcntl.LOCK_EX)
        return True
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)


def _is_current(lock: Path, handle: int) -> bool:
    """Whether the locked file is still the one under this name."""
    try:
        found = lock.stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(handle)
    return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)
