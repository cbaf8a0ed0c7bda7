"""What travels: one frozen struct per message, packed as MessagePack arrays, with bounds on every field.

A request goes from the server to one client, a reply back. Every decoder raises `PeerError` and nothing else, and
allocates no more than a small multiple of its input. Messages of a single scheme are defined with it.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, TypeVar, Union, cast, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.crypto import KEY_BYTES, SIGNATURE_BYTES
from f2ed.protocol.primitives.hybrid import CIPHERTEXT_BYTES, KEM_KEY_BYTES
from f2ed.protocol.secagg.terms import MAX_MEMBERS, Id, Terms

__all__ = [
    "TAG_BYTES",
    "AskChains",
    "AskKey",
    "AskUpload",
    "AskWraps",
    "Ciphertext",
    "KemKey",
    "Key",
    "Message",
    "Opening",
    "Ready",
    "Refused",
    "Request",
    "Several",
    "Signature",
    "SignedKey",
    "Tag",
    "Upload",
    "Wrap",
    "Wraps",
    "decode",
    "in_order",
    "read_reply",
    "write",
]

TAG_BYTES = 8
_CONTROL_BYTES = 1 << 24

Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
KemKey = Annotated[bytes, Meta(max_length=KEM_KEY_BYTES)]
Ciphertext = Annotated[bytes, Meta(max_length=CIPHERTEXT_BYTES)]
Signature = Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
Several = Meta(max_length=MAX_MEMBERS)
Tag = Annotated[bytes, Meta(min_length=TAG_BYTES, max_length=TAG_BYTES)]


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Anything that travels."""


class Request(Message, frozen=True):
    """What a server sends to one client."""

    asks_update: ClassVar[bool] = False
    """Whether the reply carries the update: the global model must reach the client with this request."""
    announces_model: ClassVar[bool] = False
    """Whether the client binds this round to a model that comes later: its SHA-256 must reach it with this request."""


class Opening(Request, frozen=True):
    """A request that states terms; those without terms continue a round that the client has begun."""

    begins_round: ClassVar[bool] = True
    """Whether an answer uses up the round."""

    terms: Terms


# Replies.


@final
class SignedKey(Message, frozen=True, tag="key"):
    """Reply to `AskKey`: keys for the epoch, signed under its context; no ML-KEM key where X25519 is used alone."""

    client: Id
    key: Key
    kem: KemKey
    signature: Signature


@final
class Wraps(Message, frozen=True, tag="wraps"):
    """Reply to `AskWraps`: an ML-KEM ciphertext for each member that this client sends one, under one signature."""

    client: Id
    ciphertexts: Annotated[tuple[Ciphertext, ...], Several]
    signature: Signature


@final
class Ready(Message, frozen=True, tag="ready"):
    """Reply to `AskChains`: this client has a chain with every member."""

    keyset: Key


@final
class Wrap(Message, frozen=True):
    """What one recipient gets of `Wraps`: its own ciphertext, and the digests of all that the signature covers."""

    client: Id
    ciphertext: Ciphertext
    digests: Annotated[tuple[Key, ...], Several]
    signature: Signature


@final
class Upload(Message, frozen=True, tag="upload"):
    """The vector. The tag, from the context, distinguishes uploads under other terms."""

    tag: Tag
    payload: memoryview


@final
class Refused(Message, frozen=True, tag="refused"):
    """Any reply: the client goes no further in this round, for this reason."""

    reason: Annotated[str, Meta(max_length=500)]


# Requests.


@final
class AskKey(Opening, frozen=True, tag="ask-key"):
    """Once per epoch, in schemes that keep keys."""

    begins_round: ClassVar[bool] = False


@final
class AskWraps(Opening, frozen=True, tag="ask-wraps"):
    """After `AskKey`, in the same round: the keys of all members."""

    begins_round: ClassVar[bool] = False

    keys: Annotated[tuple[SignedKey, ...], Several]


@final
class AskChains(Opening, frozen=True, tag="ask-chains"):
    """After `AskWraps`, in the same round: the ciphertexts for this client."""

    begins_round: ClassVar[bool] = False

    wraps: Annotated[tuple[Wrap, ...], Several]


@final
class AskUpload(Opening, frozen=True, tag="ask-upload"):
    """Once per round, in schemes of one step; in the clear there are no keys."""

    asks_update: ClassVar[bool] = True

    since: Id = 0
    """The round in which the keys were made."""
    keyset: Annotated[bytes, Meta(max_length=KEY_BYTES)] = b""
    """Digest of all members' keys."""


R = TypeVar("R", bound=Message)

_encode = msgspec.msgpack.Encoder().encode


def write(message: Message) -> bytes:
    """Return the bytes of a message."""
    return _encode(message)


def read_reply(kind: type[R], data: bytes, *, payload: int = 0) -> R:
    """Read a client's reply of the requested kind; `payload` is the size of the vector that it may carry."""
    reply = decode((kind, Refused), data, payload=payload)
    if isinstance(reply, Refused):
        raise PeerError(f"it refused: {reply.reason}")
    return cast("R", reply)


def decode(kinds: tuple[type[Message], ...], data: bytes, *, payload: int = 0) -> Message:
    """Read a message of one of these kinds, or raise `PeerError`."""
    if len(data) > (most := _CONTROL_BYTES + payload):
        raise PeerError(f"a message of {len(data)} bytes; this one has at most {most}")
    try:
        return cast("Message", _decoder(kinds).decode(data))
    except (ValueError, RecursionError) as error:  # what msgspec raises for bytes that are not such a message
        raise PeerError(f"a message that cannot be read: {error}") from None


@lru_cache(maxsize=64)
def _decoder(kinds: tuple[type[Message], ...]) -> "msgspec.msgpack.Decoder[Any]":
    return msgspec.msgpack.Decoder(Union[kinds])  # noqa: UP007  the kinds are known at run time only


def in_order(what: str, ids: Sequence[int]) -> None:
    """Raise `PeerError` unless the ids ascend, each of them once, as in every list that travels."""
    if any(one >= other for one, other in pairwise(ids)):
        raise PeerError(f"a list of {what} that names one twice or out of order")
