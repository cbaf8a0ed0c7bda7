"""Arrays beyond a memory budget, in files that have no name and vanish with their process.

The kernel reads and writes the pages of such a file as they are used. `forget` takes them out of this process again, so
that a pass over an array that is larger than memory does not make the process as large.
"""

import ctypes
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from math import prod
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError

__all__ = ["Spill", "Zeros", "forget", "is_spilled", "return_freed_memory", "spill_beside"]

AnyArray: TypeAlias = npt.NDArray[Any]
Zeros: TypeAlias = Callable[[tuple[int, ...], Any], AnyArray]
"""Returns an array of zeros of a shape and type, as `numpy.zeros` does."""

_GIB = 1 << 30
_PIECE = bytes(1 << 20)
_M_MMAP_THRESHOLD = -3
"""As glibc numbers it."""
_LARGE = 1 << 20


@final
class Spill:
    """Makes arrays in memory while all that are alive fit the budget of bytes, and in files of a folder beyond it.

    The files are removed when they are made, or marked to be deleted where a system cannot do that: nothing is left of
    them after a crash. May be called from several threads.
    """

    def __init__(self, budget: int, folder: Path) -> None:
        if budget < 0:
            raise ConfigError(f"a memory budget of {budget} bytes; it must be 0 or more, or left out for no limit")
        if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            raise ConfigError(
                f"{folder} is not a folder that can be written; name one on a disk with spill_folder, for arrays "
                "beyond the memory budget"
            )
        self.budget = budget
        self.folder = folder
        self._lock = Lock()
        self._in_memory = 0
        self._in_files = 0

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> AnyArray:
        """Return an array of zeros; raise `ConfigError` if the disk has no room for it."""
        size = prod(shape) * np.dtype(dtype).itemsize
        with self._lock:
            fits = self._in_memory + size <= self.budget
            if fits:
                self._in_memory += size
            else:
                self._in_files += size
        try:
            made: AnyArray = np.zeros(shape, dtype) if fits else self._mapped(shape, dtype, size)
        except BaseException:
            self._freed(size, in_memory=fits)
            raise
        weakref.finalize(made, self._freed, size, in_memory=fits)
        return made

    @property
    def in_files(self) -> int:
        """Bytes of the arrays in files that are in use."""
        return self._in_files

    def check_room(self, size: int) -> None:
        """Raise `ConfigError` if arrays of this many bytes in total do not fit the budget and the disk."""
        free = shutil.disk_usage(self.folder).free
        if size > self.budget + free:
            raise self._full(size - self.budget, free)

    def _mapped(self, shape: tuple[int, ...], dtype: Any, size: int) -> AnyArray:
        try:
            with tempfile.TemporaryFile(prefix="f2ed-", dir=self.folder) as file:
                _reserve(file.fileno(), size)
                return np.memmap(file, dtype, "r+", shape=shape)
        except OSError as error:
            free = shutil.disk_usage(self.folder).free
            if size > free:
                raise self._full(size, free) from None
            raise ConfigError(
                f"{self.folder} cannot hold arrays beyond the memory budget: {error.strerror}; name another folder "
                "with spill_folder"
            ) from None

    def _full(self, size: int, free: int) -> ConfigError:
        return ConfigError(
            f"{self.folder} has {free / _GIB:.2f} GiB free, and arrays beyond the memory budget need "
            f"{size / _GIB:.2f} GiB; free some, name a folder on another disk with spill_folder, or raise memory_budget"
        )

    def _freed(self, size: int, *, in_memory: bool) -> None:
        with self._lock:
            if in_memory:
                self._in_memory -= size
            else:
                self._in_files -= size


def spill_beside(file: Path | None, *, budget: int | None, folder: str | Path | None) -> Spill | None:
    """Return a spill in a folder, or else where a file of the run is; None without a budget.

    With a budget, `return_freed_memory` holds for this process.
    """
    if budget is None:
        if folder is not None:
            raise ConfigError("spill_folder without memory_budget: nothing would be put there; give both or neither")
        return None
    return_freed_memory()
    if folder is not None:
        return Spill(budget, Path(folder))
    if file is None:
        return Spill(budget, Path(tempfile.gettempdir()))
    file.parent.mkdir(parents=True, exist_ok=True)
    return Spill(budget, file.parent)


def return_freed_memory() -> None:
    """Have large arrays given back to the system as soon as they are freed, where the C library can be told to.

    Otherwise glibc keeps those below 32 MiB, for use by others: of a model in many arrays, as much again as the model.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)


def is_spilled(array: AnyArray) -> bool:
    """Return whether an array, or what it is a view of, is in a file."""
    return _mapping(array) is not None


def forget(array: AnyArray) -> None:
    """Take the pages of an array out of this process, where it is in a file; its values stay, and can be used again.

    Any array may be given, also a view with gaps between its rows: it is walked row by row.
    """
    found = _mapping(array)
    if found is None or not array.size or not hasattr(mmap, "MADV_DONTNEED"):
        return
    mapping, start = found
    if array.flags.c_contiguous:
        _drop(mapping, array.ctypes.data - start, array.nbytes)
        return
    for row in array:
        forget(row)


def _drop(mapping: mmap.mmap, at: int, size: int) -> None:
    first = -(-at // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (at + size) // mmap.PAGESIZE * mmap.PAGESIZE
    if last > first:
        mapping.madvise(mmap.MADV_DONTNEED, first, last - first)


def _mapping(array: AnyArray) -> tuple[mmap.mmap, int] | None:
    """Return the mapped file behind an array of `Spill`, and where it begins in memory."""
    whole: Any = array
    while isinstance(whole, np.ndarray):
        below: Any = whole.base
        if isinstance(below, mmap.mmap):
            return below, whole.ctypes.data
        whole = below
    return None


def _reserve(handle: int, size: int) -> None:
    """Take the room on the disk now: a page that finds none later would end the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
        return
    for start in range(0, size, len(_PIECE)):
        os.write(handle, _PIECE[: min(len(_PIECE), size - start)])
