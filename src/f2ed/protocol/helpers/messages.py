"""What clients and helpers reply: frozen structs with bounds on every field.

Every decoder raises `PeerError` alone. What one helper sends to the other travels through the server, sealed.
"""

from functools import lru_cache
from typing import Annotated, Any, TypeVar, Union, cast, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import PeerError
from f2ed.protocol.helpers.terms import MAX_MEMBERS, Id, Key
from f2ed.protocol.primitives.crypto import SIGNATURE_BYTES
from f2ed.protocol.primitives.hybrid import CIPHERTEXT_BYTES, KEM_KEY_BYTES

__all__ = [
    "Accusation",
    "Blob",
    "Combined",
    "Envelope",
    "Ids",
    "MaskedSum",
    "Message",
    "Opening",
    "Refused",
    "Revealed",
    "RowsWanted",
    "SealedShares",
    "Several",
    "ShownValues",
    "Signature",
    "SignedSet",
    "Strikes",
    "Upload",
    "Vote",
    "Weighed",
    "decode",
    "read_reply",
    "write",
]

_LARGEST = 1 << 34
Signature = Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
Several = Meta(max_length=MAX_MEMBERS)
Ids = Annotated[tuple[Id, ...], Several]
Blob = bytes
_Sealed = Annotated[bytes, Meta(max_length=128)]
_Ciphertext = Annotated[bytes, Meta(max_length=CIPHERTEXT_BYTES)]
_Mark = Annotated[tuple[Id, ...], Meta(max_length=2)]


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Anything that travels."""


@final
class Opening(Message, frozen=True, tag="opening"):
    """A party opens the round: fresh keys, a commitment to its half of the joint seed, all of it signed."""

    exchange: Key
    kem: Annotated[bytes, Meta(max_length=KEM_KEY_BYTES)]
    commitment: Annotated[bytes, Meta(max_length=32)]
    """Empty for the server, which contributes nothing to the seed."""
    seen: _Mark
    """The latest (epoch, round) that this helper has seen the other helper open."""
    signature: Signature


@final
class Envelope(Message, frozen=True, tag="envelope"):
    """A client's seeds, each sealed to those who may know it, and commitments to them and to the masked row."""

    client: Id
    context: Key
    mixer_commitment: Key
    server_commitment: Key
    row: Key
    """The digest of the masked row."""
    exchange: Key
    ciphertexts: tuple[_Ciphertext, _Ciphertext, _Ciphertext]
    sealed: tuple[_Sealed, _Sealed, _Sealed]
    signature: Signature


@final
class Accusation(Message, frozen=True):
    """A client whose envelope a helper cannot use."""

    client: Id
    reason: Annotated[str, Meta(max_length=200)]


@final
class Upload(Message, frozen=True, tag="upload"):
    """A client's envelope, and its masked row sealed to the server."""

    envelope: Envelope
    row: memoryview


@final
class Vote(Message, frozen=True, tag="vote"):
    """Which envelopes a helper cannot use."""

    accused: Annotated[tuple[Accusation, ...], Several]
    signature: Signature


@final
class SignedSet(Message, frozen=True, tag="set"):
    """A helper's signature on the set of clients; it signs one set in a round."""

    signature: Signature


@final
class Revealed(Message, frozen=True, tag="revealed"):
    """A helper's half of the joint seed."""

    seed: Key


@final
class RowsWanted(Message, frozen=True, tag="rows-wanted"):
    """The masked rows that the mixer checks next; none is left when its shares come."""

    clients: Ids


@final
class SealedShares(Message, frozen=True, tag="shares"):
    """What the mixer sends to the judge: its shares of the Gram matrix and the test values."""

    sealed: Blob


@final
class Combined(Message, frozen=True, tag="combination"):
    """The judge's random combination, drawn after the shares were fixed; signed, so that the mixer knows its source."""

    weights: Blob
    signature: Signature


@final
class Weighed(Message, frozen=True, tag="weighed"):
    """The judge's decision: who is in the sum, who has a strike, and SHA-256 of the mixer's part of the sum."""

    kept: Ids
    struck: Ids
    mask: Key
    eigenvalue: float | None
    iterations: Id
    stopped: Annotated[str, Meta(max_length=200)]
    signature: Signature


@final
class MaskedSum(Message, frozen=True, tag="mask"):
    """The mixer's part of the sum, sealed to the server."""

    sealed: Blob


@final
class ShownValues(Message, frozen=True, tag="shown"):
    """What the mixer sends to the judge in a blame step: smudged values of masked rows that it has checked."""

    sealed: Blob


@final
class Strikes(Message, frozen=True, tag="strikes"):
    """Clients that a blame step found out of range, signed by the judge."""

    struck: Ids
    signature: Signature


@final
class Refused(Message, frozen=True, tag="refused"):
    """A reply in place of any other; `spent` if the round is over for this party."""

    reason: Annotated[str, Meta(max_length=500)]
    spent: bool = False


R = TypeVar("R", bound=Message)
_encode = msgspec.msgpack.Encoder().encode


def write(message: Message) -> bytes:
    """Return the bytes of a message."""
    return _encode(message)


def read_reply(kind: type[R], data: bytes) -> R:
    """Read a reply of the requested kind; a refusal, or anything else, raises `PeerError`."""
    reply = decode((kind, Refused), data)
    if isinstance(reply, Refused):
        raise PeerError(f"it refused: {reply.reason}")
    return cast("R", reply)


def decode(kinds: tuple[type[Message], ...], data: bytes) -> Message:
    """Read a message of one of these kinds, or raise `PeerError`."""
    if len(data) > _LARGEST:
        raise PeerError(f"a message of {len(data)} bytes; none has more than {_LARGEST}")
    try:
        return cast("Message", _decoder(kinds).decode(data))
    except (ValueError, RecursionError) as error:
        raise PeerError(f"a message that cannot be read: {error}") from None


@lru_cache(maxsize=64)
def _decoder(kinds: tuple[type[Message], ...]) -> "msgspec.msgpack.Decoder[Any]":
    return msgspec.msgpack.Decoder(Union[kinds])  # noqa: UP007  the kinds are known at run time only
