"""The conversation with an agent: frames of a length and a message, and one stream of floats.

::

    app                          agent
    Asked             ─────▶
                      ◀─────     Need     or Reply, at once
    Update, floats    ─────▶              or Failed
                      ◀─────     Reply
"""

import struct
from socket import socket
from typing import Annotated, Any, Literal, final

import msgspec
import numpy as np
from msgspec import Meta

from f2ed.core.errors import GoneError
from f2ed.deployment.asked import Vector

__all__ = ["Failed", "Update", "receive", "receive_floats", "send", "send_floats"]

_LENGTH = struct.Struct(">Q")
_PIECE = 2**20


@final
class Update(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="update"):
    """Announces an update; that many floats follow."""

    dtype: Literal["<f4", "<f8"]
    count: Annotated[int, Meta(ge=0, le=2**40)]


@final
class Failed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="failed"):
    """Training failed; the reason is in the log of the app's process."""


def send(to: socket, message: msgspec.Struct) -> None:
    """Send a message."""
    data = msgspec.msgpack.encode(message)
    to.sendall(_LENGTH.pack(len(data)))
    to.sendall(data)


def receive(source: socket, kind: Any, *, most: int) -> Any:
    """Return the next message; raise `GoneError` for one that is larger than `most` bytes, or of another kind."""
    head = bytearray(_LENGTH.size)
    _fill(source, memoryview(head))
    (length,) = _LENGTH.unpack(head)
    if length > most:
        raise GoneError(f"a frame of {length} bytes; at most {most} are read")
    data = bytearray(length)
    _fill(source, memoryview(data))
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except ValueError as error:
        raise GoneError(f"a frame that cannot be read here: {error}") from None


def send_floats(to: socket, vector: Vector) -> None:
    """Send an update in one stream."""
    dtype: Literal["<f4", "<f8"] = "<f8" if vector.dtype == np.float64 else "<f4"
    send(to, Update(dtype, vector.size))
    to.sendall(np.ascontiguousarray(vector, dtype).data.cast("B"))


def receive_floats(source: socket, update: Update, *, wanted: int) -> Vector | None:
    """Return the floats that were announced, or None if they are not as many as wanted; read them in any case."""
    if update.count == wanted:
        vector: Vector = np.empty(update.count, update.dtype)
        _fill(source, vector.data.cast("B"))
        return vector
    left = update.count * np.dtype(update.dtype).itemsize
    piece = memoryview(bytearray(_PIECE))
    while left:
        left -= _read(source, piece[: min(left, _PIECE)])
    return None


def _fill(source: socket, into: memoryview) -> None:
    while into:
        into = into[_read(source, into) :]


def _read(source: socket, into: memoryview) -> int:
    count = source.recv_into(into)
    if not count:
        raise GoneError("the other side ended the conversation")
    return count
