"""What the lines of nodes and helpers say: each event is what its author was told, or what it did."""

from typing import Annotated, Literal, final

import msgspec
from msgspec import Meta

__all__ = [
    "BaseEvent",
    "Began",
    "Boot",
    "Complaint",
    "Confirmed",
    "Decided",
    "Digest",
    "Gave",
    "InRound",
    "KeyGiven",
    "KeysSeen",
    "Number",
    "Pinned",
    "Reason",
    "Refused",
    "Repaired",
    "SetSigned",
    "Struck",
    "Uploaded",
    "Voted",
]

Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Reason = Annotated[str, Meta(max_length=500)]


class BaseEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="event"):
    """What a line says."""


@final
class Boot(BaseEvent, frozen=True, tag="boot"):
    """The first line of an author."""


@final
class Pinned(BaseEvent, frozen=True, tag="pinned"):
    """From here on the author follows the roster that the line names."""


@final
class KeyGiven(BaseEvent, frozen=True, tag="key"):
    """A node gave its key of an epoch."""

    epoch: Number
    key: Digest
    """Of the reply with the key."""


class InRound(BaseEvent, frozen=True):
    """An event of a round in a shard."""

    round: Number
    shard: Number
    ctx: Digest
    """The context that binds every mask: terms, members and input."""


@final
class Began(InRound, frozen=True, tag="began"):
    """A node or helper agreed to take part in a round: this is what it was told."""

    job: Annotated[str, Meta(max_length=128)]
    input: Digest
    """Of all that training sees: model, settings, run config."""
    members: Digest
    """Of the ids of the shard's members."""
    keyset: Annotated[bytes, Meta(max_length=32)] = b""
    """Digest of all members' keys, or of the three openings with helpers, where known when the round begins."""
    terms: Digest | msgspec.UnsetType = msgspec.UNSET
    """With helpers: of the terms, so that other terms and another model can be told apart."""


@final
class KeysSeen(InRound, frozen=True, tag="keys"):
    """A node or helper was shown the keys of the round."""

    keyset: Digest


@final
class Uploaded(InRound, frozen=True, tag="uploaded"):
    """A node's masked upload left."""


@final
class Confirmed(InRound, frozen=True, tag="confirmed"):
    """A node signed who is in the sum."""

    survivors: tuple[Number, ...]


@final
class Complaint(InRound, frozen=True, tag="complaint"):
    """A node could not use what another member sent to it."""

    dealers: tuple[Number, ...]


@final
class Refused(BaseEvent, frozen=True, tag="refused"):
    """A node or helper refused a request, for a reason that depends on public data alone."""

    reason: Reason


@final
class Repaired(BaseEvent, frozen=True, tag="repaired"):
    """A crash left bytes that are no line. They stay in the file, before this line."""

    size: Number
    torn: Digest
    """SHA-256 of these bytes."""


@final
class Voted(InRound, frozen=True, tag="voted"):
    """A helper opened the envelopes of the clients whose uploads arrived."""

    shown: Digest
    """Of all envelopes that the server showed."""
    accused: dict[str, Reason] = {}
    """Clients whose envelopes it cannot use, by their ids, and why."""


@final
class SetSigned(InRound, frozen=True, tag="set"):
    """A helper signed the set of a round: the clients whose rows it took."""

    clients: tuple[Number, ...]
    envelopes: Digest
    """Of these clients and their envelopes."""


@final
class Gave(InRound, frozen=True, tag="gave"):
    """A helper answered a step in which something is opened to another party."""

    what: Literal["shares", "combination", "values"]
    answer: Digest
    """SHA-256 of the answer."""
    opened: Annotated[bytes, Meta(max_length=32)] = b""
    """The judge: of the Gram matrix that it opened, with its masked row, which keeps guesses from being tried."""


@final
class Decided(InRound, frozen=True, tag="decided"):
    """The judge decided who is in the sum; the mixer gave its part of that sum."""

    survivors: tuple[Number, ...]
    struck: tuple[Number, ...]
    """Who is out of range, and left out for the epoch."""
    mask: Digest
    """SHA-256 of the mixer's part: the judge computed it, the mixer gave it."""
    answer: Digest


@final
class Struck(InRound, frozen=True, tag="struck"):
    """After a sum out of range: who is left out for the epoch."""

    clients: tuple[Number, ...]
