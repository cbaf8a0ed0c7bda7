"""How the protocol's bytes travel in Flower's messages.

A request is in the record `f2ed` beside the model and the user's settings, so the training function finds what it
expects. A reply holds the protocol's bytes and the newest line of the node's log.
"""

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode

from f2ed.core.errors import PeerError
from f2ed.deployment.asked import ARRAYS, CONFIG, OURS
from f2ed.protocol.helpers.messages import Refused, decode

__all__ = [
    "ARRAYS",
    "BUFFERS",
    "CONFIG",
    "OURS",
    "STATE",
    "carried_bytes",
    "carried_content",
    "hello_nonce",
    "is_refusal",
    "reply_bytes",
    "reply_content",
    "reply_line",
    "request_content",
]

STATE = "f2ed-state"
"""The record of `context.state` that holds the protocol's own state in simulations."""
BUFFERS = "f2ed-buffers"
"""The record of `context.state` that holds the buffers which the roster leaves on each node."""
_KNOWN_ERRORS = {
    ErrorCode.MESSAGE_UNAVAILABLE: "its request expired on the SuperLink before it was fetched; is the node busy, or "
    "a clock wrong?",
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE: "its reply expired on the SuperLink; is a clock wrong?",
    ErrorCode.NODE_UNAVAILABLE: "its node stopped answering: it ended, hangs or lost its connection; see its log",
    ErrorCode.CLIENT_APP_CRASHED: "the process of the app crashed or was killed on its node; see its log",
}
"""In an operator's words, what Flower reports by a number."""
_CUT_OFF = "Reply message objects are unavailable"
"""How Flower's reason begins where a reply was announced, and its rest never came."""


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


def carried_content(request: bytes) -> RecordDict:
    """Return the content of a message to a helper, whose app carries the bytes on; as an array, at any size."""
    return RecordDict({OURS: ArrayRecord({"request": Array("uint8", (len(request),), "f2ed.bytes", request)})})


def carried_bytes(message: Message) -> bytes:
    """Return the request in a message to a helper, or raise `PeerError` if there is none."""
    record = message.content.array_records.get(OURS)
    if record is None or list(record) != ["request"]:
        raise PeerError("a message to a helper without a request; a helper's node takes no part in anything else")
    return _data(record["request"])


def hello_nonce(message: Message) -> bytes | None:
    """Return the nonce of a message that asks a node who it is; None if it asks for something else."""
    record = message.content.config_records.get(OURS)
    nonce = None if record is None else record.get("hello")
    return nonce if isinstance(nonce, bytes) else None


def reply_bytes(message: Message) -> bytes:
    """Return the protocol's bytes in a reply, or raise `PeerError` if there are none."""
    if message.has_error():
        reason = str(message.error.reason)
        if reason.startswith(_CUT_OFF):
            raise PeerError("its reply broke off: its node ended or lost its connection while it sent it; see its log")
        raise PeerError(_KNOWN_ERRORS.get(message.error.code, f"an error instead of a reply: {reason[:300]}"))
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
