"""Masked rows in a file: with helpers the server keeps every upload until the end of a round, 8 bytes a parameter."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import final

import numpy as np

from f2ed.core.errors import ConfigError
from f2ed.protocol.helpers.field import WORD_BYTES, Elements
from f2ed.protocol.sharding import ClientId

__all__ = ["FileRows"]


@final
class FileRows:
    """A `RowStore` on disk, of which nothing stays in this process.

    The file loses its name at once, so that it vanishes when it is closed, and with a process that crashes.
    """

    def __init__(self, path: Path, clients: Sequence[ClientId], coordinates: int) -> None:
        self._path, self._coordinates = path, coordinates
        self._place = {client: place for place, client in enumerate(clients)}
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        path.unlink()
        os.truncate(self._file, WORD_BYTES * len(clients) * coordinates)

    def put(self, client: ClientId, row: Elements) -> None:
        """Write a row."""
        if client not in self._place:
            raise ConfigError(f"a row of client {client}, for whom there is no room; name all clients at the start")
        left, at = np.ascontiguousarray(row, "<u8").data.cast("B"), self._at(client, 0)
        while left:
            written = os.pwrite(self._file, left, at)
            left, at = left[written:], at + written

    def read(self, client: ClientId, start: int, stop: int) -> Elements:
        """Return some columns of a row."""
        out = np.empty(stop - start, "<u8")
        left, at = out.data.cast("B"), self._at(client, start)
        while left:
            count = os.preadv(self._file, [left], at)
            if not count:
                raise ConfigError(
                    f"the file of masked rows in {self._path.parent} is shorter than it was; its disk fails"
                )
            left, at = left[count:], at + count
        return out

    def close(self) -> None:
        """Give the room on the disk back; what was there is of no use without the clients' seeds."""
        os.close(self._file)

    def _at(self, client: ClientId, column: int) -> int:
        return WORD_BYTES * (self._place[client] * self._coordinates + column)
