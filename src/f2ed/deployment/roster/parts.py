"""The parts of a roster: who is on it, who left, and the rules that are signed with them."""

from math import inf
from typing import Annotated, Literal, final

import msgspec
from msgspec import Meta

from f2ed.protocol.primitives.crypto import KEY_BYTES
from f2ed.protocol.quantization.encoding import Encoding

__all__ = [
    "Agreement",
    "App",
    "Draw",
    "Entry",
    "Gone",
    "Group",
    "Grouping",
    "Key",
    "Name",
    "Risk",
    "Serial",
    "SignedEncoding",
    "Weight",
]

Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Serial = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
Weight = Annotated[int, Meta(ge=1, le=2**40)]
Agreement = Literal["x25519+mlkem768", "x25519"]
"""How the members of a shard agree on keys."""
Risk = Literal["leak", "pool", "differences", "stateful", "evaluate", "unpinned-app", "authority-draw", "test"]
"""A risk that a roster may take, by name. Every node prints those of its roster when it starts."""


@final
class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One client."""

    id: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    name: Name
    key: Key
    """Its public Ed25519 key."""
    since: Serial = 0
    """The first serial that was signed with it; 0 if none was yet."""
    weight: Weight = 1
    """How much its update counts, of at most `weight_cap`; public."""


@final
class Gone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client that left. Its id, name and key are never used again: nobody new can be taken for it."""

    id: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    name: Name
    key: Key
    until: Serial = 0
    """The first serial that was signed without it; 0 if none was yet."""


@final
class SignedEncoding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How an update becomes integers."""

    clip_value: Annotated[float, Meta(ge=1e-30, le=1e30)] = 1.0
    """The largest magnitude of a coordinate."""
    clip_norm: Annotated[float, Meta(gt=0, le=1e30)] | None = None
    """The largest L2 norm of an update; None never clips, since JSON has no infinity."""
    bits: Annotated[int, Meta(ge=2, le=48)] = 20

    def to_encoding(self) -> Encoding:
        """Return the encoding that clients and server use."""
        return Encoding(self.clip_value, inf if self.clip_norm is None else self.clip_norm, self.bits)


@final
class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Clients that always share a shard and are opened together or not at all."""

    index: Annotated[int, Meta(ge=0)]
    since: Serial
    """The serial that made it."""
    members: tuple[Annotated[int, Meta(ge=0)], ...]
    weights: tuple[Weight, ...]
    """The members' weights, which stay as they are."""


@final
class Grouping(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How new groups are made."""

    size: Annotated[int, Meta(ge=0)] = 0
    """The smallest number of members of a new group; 0 before the first signing."""
    hidden: Annotated[int, Meta(ge=2)] = 2
    """How many honest members hide each other, colluders apart."""
    malicious: Annotated[int, Meta(ge=0)] = 0
    """How many clients may be malicious, all of them in the pool that new groups are drawn from."""
    chance: Annotated[float, Meta(ge=0, le=1)] = 0.01
    """The largest chance for a client to be drawn into a group with fewer than `hidden` honest members."""


@final
class Draw(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the seed of the assignment comes from."""

    head: bytes = b""
    """The end of the authority's hash chain, which was published before any client's key was known."""
    link: Annotated[int, Meta(ge=0)] = 0
    """The link of the chain that made this seed."""
    value: bytes = b""
    """That link itself."""


@final
class App(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An app that nodes may run."""

    sha256: Key
    name: str
