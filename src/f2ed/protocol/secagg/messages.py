"""What travels: one frozen struct per message, packed as MessagePack arrays, with bounds on every field.

A request goes from the server to one client, a reply back. Every decoder raises `PeerError` and nothing else, and
allocates no more than a small multiple of what it was given.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, TypeVar, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.crypto import KEY_BYTES, SIGNATURE_BYTES
from f2ed.protocol.secagg.shamir import SHARE_BYTES
from f2ed.protocol.secagg.terms import MOST_MEMBERS, Id, Terms

__all__ = [
    "COMMITMENT_BYTES",
    "TAG_BYTES",
    "Advertisement",
    "Alive",
    "AskKey",
    "AskUpload",
    "Confirmation",
    "Confirmations",
    "Delivery",
    "Invite",
    "Parcel",
    "Peers",
    "Refused",
    "Reply",
    "Request",
    "Reveal",
    "Share",
    "Shares",
    "SignedKey",
    "Upload",
    "in_order",
    "read_reply",
    "read_request",
    "write",
]

COMMITMENT_BYTES = 16
TAG_BYTES = 8
_CONTROL_BYTES = 1 << 21

Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Signature = Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
Commitment = Annotated[bytes, Meta(min_length=COMMITMENT_BYTES, max_length=COMMITMENT_BYTES)]
Sealed = Annotated[bytes, Meta(min_length=2 * SHARE_BYTES + 16, max_length=2 * SHARE_BYTES + 16)]
ShareBytes = Annotated[bytes, Meta(min_length=SHARE_BYTES, max_length=SHARE_BYTES)]
Tag = Annotated[bytes, Meta(min_length=TAG_BYTES, max_length=TAG_BYTES)]
Several = Meta(max_length=MOST_MEMBERS)


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Anything that travels."""


# Both modes: parts and replies.


@final
class SignedKey(Message, frozen=True, tag="key"):
    """Reply to `AskKey`: an X25519 key for the epoch, signed under the epoch's context."""

    client: Id
    key: Key
    signature: Signature


@final
class Advertisement(Message, frozen=True, tag="advertise"):
    """Reply to `Invite`: this round's keys and the commitment to the self seed, signed under the round's context."""

    client: Id
    channel: Key
    mask: Key
    commitment: Key
    signature: Signature


@final
class Parcel(Message, frozen=True):
    """Two shares sealed for one peer, and a commitment to each.

    Half of SHA-256 is enough for these: whoever reveals another share needs a second preimage, not a collision.
    """

    dealer: Id
    recipient: Id
    sealed: Sealed
    mask: Commitment
    seed: Commitment


@final
class Shares(Message, frozen=True, tag="share"):
    """Reply to `Peers`: a parcel for every other member, and the commitment to the share of its seed that it keeps."""

    parcels: Annotated[tuple[Parcel, ...], Several]
    own: Commitment


@final
class Upload(Message, frozen=True, tag="upload"):
    """Reply to `Delivery` or `AskUpload`: the vector. The tag, from the context, tells uploads of other terms apart."""

    tag: Tag
    payload: memoryview


@final
class Confirmation(Message, frozen=True, tag="confirm"):
    """Reply to `Alive`: a signature on who is alive."""

    client: Id
    signature: Signature


@final
class Share(Message, frozen=True):
    """One share of one secret of one dealer; which secret follows from whether the dealer is alive."""

    dealer: Id
    share: ShareBytes


@final
class Reveal(Message, frozen=True, tag="reveal"):
    """Reply to `Confirmations`, or to `Alive` where the consistency step is skipped: exactly one share per dealer."""

    shares: Annotated[tuple[Share, ...], Several]


@final
class Refused(Message, frozen=True, tag="refused"):
    """Any reply: the client goes no further in this round, and says why."""

    reason: Annotated[str, Meta(max_length=500)]


# Requests.


@final
class AskKey(Message, frozen=True, tag="ask-key"):
    """All-or-nothing, once per epoch."""

    terms: Terms


@final
class AskUpload(Message, frozen=True, tag="ask-upload"):
    """All-or-nothing, once per round; in the clear there are no keys."""

    terms: Terms
    keys: Annotated[tuple[SignedKey, ...], Several]


@final
class Invite(Message, frozen=True, tag="invite"):
    """Dropout-tolerant, step 0."""

    terms: Terms


@final
class Peers(Message, frozen=True, tag="peers"):
    """Step 1: who advertised (U1)."""

    advertisements: Annotated[tuple[Advertisement, ...], Several]


@final
class Delivery(Message, frozen=True, tag="delivery"):
    """Step 2: the parcels addressed to one client; their dealers and itself are U2."""

    parcels: Annotated[tuple[Parcel, ...], Several]


@final
class Alive(Message, frozen=True, tag="alive"):
    """Step 3: whose uploads arrived (U3). The others of U2 are dropped, so nobody can be named as both."""

    clients: Annotated[tuple[Id, ...], Several]


@final
class Confirmations(Message, frozen=True, tag="confirmations"):
    """Step 4: the signatures on U3."""

    signatures: Annotated[tuple[Confirmation, ...], Several]


Request = AskKey | AskUpload | Invite | Peers | Delivery | Alive | Confirmations
Reply = SignedKey | Advertisement | Shares | Upload | Confirmation | Reveal | Refused

R = TypeVar("R", SignedKey, Advertisement, Shares, Upload, Confirmation, Reveal)

_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
_encode = msgspec.msgpack.Encoder().encode


def write(message: Request | Reply) -> bytes:
    """Return the bytes of a message."""
    return _encode(message)


def read_request(data: bytes) -> Request:
    """Read what the server sent."""
    return _read(_requests, data, _CONTROL_BYTES)


def read_reply(kind: type[R], data: bytes, *, payload: int = 0) -> R:
    """Read a client's reply of the one kind that was asked for; `payload` is the size of the vector it may carry."""
    reply = _read(_replies, data, _CONTROL_BYTES + payload)
    if isinstance(reply, Refused):
        raise PeerError(f"it refused: {reply.reason}")
    if not isinstance(reply, kind):
        raise PeerError(f"a reply of kind {type(reply).__name__}; {kind.__name__} was asked for")
    return reply


M = TypeVar("M")


def _read(decoder: "msgspec.msgpack.Decoder[M]", data: bytes, most: int) -> M:
    if len(data) > most:
        raise PeerError(f"a message of {len(data)} bytes; this one has at most {most}")
    try:
        return decoder.decode(data)
    except (ValueError, RecursionError) as error:  # what msgspec raises for bytes that are not such a message
        raise PeerError(f"a message that cannot be read: {error}") from None


def in_order(what: str, ids: Sequence[int]) -> None:
    """Raise `PeerError` unless the ids ascend, each of them once, as in every list that travels."""
    if any(one >= other for one, other in pairwise(ids)):
        raise PeerError(f"a list of {what} that names one twice or out of order")
