"""How the protocol's bytes travel in Flower's messages.

A request is in the record `f2ed` beside the model and the user's settings, so the training function finds what it
expects. A reply holds the protocol's bytes and the newest line of the node's log.
"""

from typing import Annotated, final

import msgspec
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from msgspec import Meta

from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.secagg.messages import Refused, decode

__all__ = [
    "ARRAYS",
    "CONFIG",
    "OURS",
    "STATE",
    "Hello",
    "hello_text",
    "is_refusal",
    "reply_bytes",
    "reply_content",
    "reply_line",
    "request_content",
]

OURS = "f2ed"
ARRAYS = "arrays"
CONFIG = "config"
STATE = "f2ed-state"
"""The record of `context.state` that holds the protocol's own state in simulations."""


@final
class Hello(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="hello"):
    """A node's statement of which client it is."""

    client: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    roster: Annotated[bytes, Meta(min_length=32, max_length=32)]
    """The digest of its roster."""
    run_config: Annotated[bytes, Meta(min_length=32, max_length=32)]
    """The digest of the run's settings and its app, as this node was given them."""
    last: Annotated[int, Meta(ge=-1, le=2**32)]
    """The last round that it answered, in any run; -1 if none."""
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]


def hello_text(job: str, node: int, client: int, run_config: bytes, last: int, nonce: bytes) -> bytes:
    """Return what a node signs: bound to its node id, so no other node can reuse it, and to a fresh nonce."""
    who = unsigned(node), unsigned(client)
    return fields(b"f2ed hello 3", job.encode(), *who, run_config, unsigned(last + 1), nonce)


def request_content(
    settings: ConfigRecord, *, arrays: ArrayRecord | None = None, config: ConfigRecord | None = None
) -> RecordDict:
    """Return the content of a message to a client."""
    records: dict[str, ArrayRecord | MetricRecord | ConfigRecord] = {OURS: settings}
    if arrays is not None:
        records[ARRAYS] = arrays
    if config is not None:
        records[CONFIG] = config
    return RecordDict(records)


def reply_content(reply: bytes, line: bytes = b"") -> RecordDict:
    """Return the content of a reply, with the newest line of the node's log where it keeps one.

    Both travel as arrays: Flower splits arrays, and sends them at any size.
    """
    parts = {"reply": reply, "line": line} if line else {"reply": reply}
    arrays = {name: Array("uint8", (len(data),), "f2ed.bytes", data) for name, data in parts.items()}
    return RecordDict({OURS: ArrayRecord(arrays)})


def reply_bytes(message: Message) -> bytes:
    """Return the protocol's bytes in a reply, or raise `PeerError` if there are none."""
    if message.has_error():
        raise PeerError(f"an error instead of a reply: {str(message.error.reason)[:300]}")
    record = message.content.array_records.get(OURS) if message.has_content() else None
    if record is None or list(record) not in (["reply"], ["reply", "line"]):
        raise PeerError("a reply without the protocol's bytes; does the client's app use the mod f2ed.flower.protect?")
    return _data(record["reply"])


def reply_line(message: Message) -> bytes:
    """Return the line of the node's log in a reply that `reply_bytes` accepts; b"" if there is none."""
    record = message.content.array_records[OURS]
    return _data(record["line"]) if "line" in record else b""


def is_refusal(reply: bytes) -> bool:
    """Return whether these are the bytes of a refusal."""
    try:
        decode((Refused,), reply)
    except PeerError:
        return False
    return True


def _data(array: Array) -> bytes:
    return array.data if isinstance(array.data, bytes) else np.asarray(array.data).tobytes()
