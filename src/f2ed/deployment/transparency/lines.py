"""One line of a transparency log: what its author did or was told, chained to the line before and signed.

A line is canonical JSON: the text that was signed is the text that decoding and encoding gives again. Lines hold
digests, ids, names and public reasons. They hold no update, no setting and no key.
"""

import hashlib
from datetime import UTC, datetime
from typing import Annotated, TypeAlias, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import PeerError
from f2ed.deployment.transparency.events import (
    BaseEvent,
    Began,
    Boot,
    Complaint,
    Confirmed,
    Decided,
    Digest,
    Gave,
    InRound,
    KeyGiven,
    KeysSeen,
    Number,
    Pinned,
    Reason,
    Refused,
    Repaired,
    SetSigned,
    Struck,
    Uploaded,
    Voted,
)
from f2ed.protocol.primitives.crypto import sign, verify
from f2ed.protocol.primitives.fields import fields
from f2ed.protocol.secagg import Blame

__all__ = [
    "GENESIS",
    "HELPERS",
    "JUDGE",
    "MIXER",
    "MOST_BYTES",
    "SERVER",
    "Began",
    "Blamed",
    "Boot",
    "Complaint",
    "Confirmed",
    "Decided",
    "Equivocation",
    "Event",
    "Gave",
    "KeyGiven",
    "KeysSeen",
    "Line",
    "Pinned",
    "Refused",
    "Repaired",
    "RoundClosed",
    "SetSigned",
    "ShardOutcome",
    "Struck",
    "Uploaded",
    "Voted",
    "check_line",
    "line_digest",
    "line_now",
    "read_line",
    "signed_line",
    "write_line",
]

SERVER, MIXER, JUDGE = -1, -2, -3
"""The authors that are no clients; those are named by their ids."""
HELPERS = {"mixer": MIXER, "judge": JUDGE}
"""By their roles."""
GENESIS = bytes(32)
"""In place of a line before the first."""
MOST_BYTES = 1 << 16
"""Of a line that a node or helper sends."""


@final
class ShardOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the server says about one shard of a round."""

    shard: Number
    ctx: Digest
    survivors: tuple[Number, ...]
    """Empty if the shard stayed closed."""
    weights: tuple[Number, ...] | msgspec.UnsetType = msgspec.UNSET
    """Of the survivors; empty if all are 1. Lines of earlier versions do not say."""
    opened: Annotated[bytes, Meta(max_length=32)] = b""
    """Digest of the context and of the mean that was opened."""
    dropped: dict[str, Reason] = {}
    """By the names on the roster."""


@final
class RoundClosed(BaseEvent, frozen=True, tag="round"):
    """What the server says about a round."""

    round: Number
    job: Annotated[str, Meta(max_length=128)]
    input: Digest
    before: Digest
    """Of the model."""
    after: Digest
    shards: tuple[ShardOutcome, ...]
    heads: "tuple[Line, ...]" = ()
    """The newest line of each node that answered since the round before."""


@final
class Equivocation(BaseEvent, frozen=True, tag="equivocation"):
    """The server received two lines of one author with the same number."""

    lines: "tuple[Line, Line]"


@final
class Blamed(InRound, frozen=True, tag="blamed"):
    """The server blames a member for breaking the protocol, with evidence that everyone can check."""

    blame: Blame


Event: TypeAlias = (
    Boot
    | Pinned
    | KeyGiven
    | Began
    | KeysSeen
    | Uploaded
    | Confirmed
    | Complaint
    | Voted
    | SetSigned
    | Gave
    | Decided
    | Struck
    | Refused
    | Repaired
    | RoundClosed
    | Blamed
    | Equivocation
)


@final
class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An event in its place."""

    at: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    """By the author's clock."""
    by: Annotated[int, Meta(ge=JUDGE, le=2**63 - 1)]
    data: Event
    previous: Digest
    """SHA-256 of the line before, with its signature."""
    roster: Digest
    serial: Number
    seq: Number
    """Counts the author's lines from 0."""
    signature: Annotated[bytes, Meta(max_length=64)] = b""

    def __post_init__(self) -> None:
        """Refuse an event that is not its author's to write."""
        if not isinstance(self.data, _KINDS[min(max(self.by, JUDGE), 0)]):
            raise ValueError(f"an event {type(self.data).__name__} by author {self.by}")  # noqa: TRY004  msgspec's


_ALL = (Boot, Pinned, Repaired)
_HELPER = (*_ALL, Began, KeysSeen, Voted, SetSigned, Gave, Decided, Struck, Refused)
_KINDS: dict[int, tuple[type[BaseEvent], ...]] = {
    SERVER: (*_ALL, RoundClosed, Blamed, Equivocation),
    MIXER: _HELPER,
    JUDGE: _HELPER,
    0: (*_ALL, KeyGiven, Began, KeysSeen, Uploaded, Confirmed, Complaint, Refused),
}
"""What each author may write; 0 stands for every client."""


_decode = msgspec.json.Decoder(Line).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def write_line(line: Line) -> bytes:
    """Return a line's canonical text, without the newline."""
    return _encode(line)


def read_line(text: bytes) -> Line:
    """Read a line, or raise `PeerError` unless it is the canonical text of one."""
    try:
        line = _decode(text)
    except (ValueError, RecursionError) as error:
        raise PeerError(f"not a line of a log: {error}") from None
    if _encode(line) != text:
        raise PeerError("a line of a log that is not in its canonical form")
    return line


def line_digest(line: Line) -> bytes:
    """Return what the next line names: SHA-256 of the whole line."""
    return hashlib.sha256(_encode(line)).digest()


def line_now(by: int, data: Event, *, after: Line | None, roster: bytes, serial: int) -> Line:
    """Return the next line of an author, not signed yet."""
    return Line(
        at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        by=by,
        data=data,
        previous=GENESIS if after is None else line_digest(after),
        roster=roster,
        serial=serial,
        seq=0 if after is None else after.seq + 1,
    )


def signed_line(line: Line, key: bytes, *, lineage: str) -> Line:
    """Sign a line for a federation; in another one the signature does not verify."""
    return msgspec.structs.replace(line, signature=sign(key, _text(line, lineage)))


def check_line(line: Line, key: bytes, *, lineage: str) -> None:
    """Raise `PeerError` unless this key signed this line in this federation."""
    try:
        verify(key, _text(line, lineage), line.signature)
    except PeerError:
        raise PeerError(f"line {line.seq} of a log was not signed by its author in this federation") from None


def _text(line: Line, lineage: str) -> bytes:
    return fields(b"f2ed log line 1", lineage.encode(), _encode(msgspec.structs.replace(line, signature=b"")))
