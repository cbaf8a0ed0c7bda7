"""Masked rows in a file: with helpers the server keeps every upload until the end of a round, 8 bytes a parameter."""

from collections.abc import Sequence
from pathlib import Path
from typing import final

import numpy as np

from f2ed.core.errors import ConfigError
from f2ed.protocol.helpers.field import Elements
from f2ed.protocol.sharding import ClientId

__all__ = ["FileRows"]


@final
class FileRows:
    """A `RowStore` on disk; the system's cache decides how much of it is in memory. Delete it after the round."""

    def __init__(self, path: Path, clients: Sequence[ClientId], coordinates: int) -> None:
        self._path = path
        self._place = {client: place for place, client in enumerate(clients)}
        with path.open("xb") as file:
            path.chmod(0o600)
            file.truncate(8 * len(clients) * coordinates)
        self._rows = np.memmap(path, "<u8", "r+", shape=(len(clients), coordinates))

    def put(self, client: ClientId, row: Elements) -> None:
        """Write a row."""
        if client not in self._place:
            raise ConfigError(f"a row of client {client}, for whom there is no room; name all clients at the start")
        self._rows[self._place[client]] = row

    def get(self, client: ClientId) -> Elements:
        """Return a row, to be read in part."""
        return np.asarray(self._rows[self._place[client]])

    def delete(self) -> None:
        """Remove the file; what it held is of no use without the clients' seeds."""
        self._path.unlink(missing_ok=True)
