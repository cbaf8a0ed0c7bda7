"""Who broke the protocol, by evidence that everyone with the roster can check.

A parcel is signed by its dealer, a complaint about it by its recipient: one of the two is lying, and nobody else can
tell which. While at most c members collude, an honest one is in dispute with at most c others. A member in dispute
with more is guilty.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import PeerError
from f2ed.protocol.sharding import ClientId

__all__ = ["Blame", "ComplaintExhibit", "Exhibit", "ShareExhibit", "guilty"]

Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
Fault = Literal["disputes", "shares", "disputed"]


@final
class ComplaintExhibit(msgspec.Struct, frozen=True, tag="complaint"):
    """A complaint, and the dealer's signature over the parcel that it is about."""

    client: ClientId
    dealer: ClientId
    parcel: Digest
    signature: bytes
    """Of the one who complains."""
    place: int
    count: int
    path: tuple[Digest, ...]
    """From the parcel, at this place of so many, to the root that the dealer signed."""
    dealt: bytes
    """The signature of the dealer."""
    unlinked: bool = False
    """Whether the masks of the pair were left out as well."""


@final
class ShareExhibit(msgspec.Struct, frozen=True, tag="share"):
    """A share that was revealed, and where its dealer committed to it."""

    recipient: ClientId
    share: bytes
    sealed: Digest
    mask: bytes
    seed: bytes
    place: int
    count: int
    path: tuple[Digest, ...]


Exhibit = ComplaintExhibit | ShareExhibit


@final
class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """One member that broke the protocol, or two of whom one did, with the evidence."""

    clients: tuple[ClientId, ...]
    """The guilty one; two for a dispute in which nobody is convicted."""
    fault: Fault
    """`disputes`: with more others than may collude. `shares`: of no one secret. `disputed`: nobody can tell who."""
    reason: str
    context: Digest
    """The round in which it happened: all signatures are bound to it."""
    advertised: Digest
    """The digest of everyone's keys in that round, to which the dealers' signatures are bound."""
    dealt: bytes = b""
    """The dealer's signature over its parcels, where shares are the evidence."""
    advertisement: bytes = b""
    """The dealer's signed message with its commitments, where shares are the evidence."""
    evidence: tuple[Exhibit, ...]


def guilty(disputes: Iterable[tuple[ClientId, ClientId]], colluders: int) -> dict[ClientId, frozenset[ClientId]]:
    """Return who is in dispute with more others than may collude, and with whom; the most disputed first.

    What one guilty member explains does not count against the other side. Between members that are equally disputed,
    and hardly with anyone but each other, nobody is convicted. Without colluders two disputes are still needed: one has
    two sides.
    """
    against: dict[ClientId, set[ClientId]] = {}
    for one, other in disputes:
        against.setdefault(one, set()).add(other)
        against.setdefault(other, set()).add(one)
    found: dict[ClientId, frozenset[ClientId]] = {}
    while worst := _worst(against, max(colluders, 1)):
        for client in worst:
            found[client] = frozenset(against[client])
        for client in worst:
            for other in against.pop(client):
                if other in against:
                    against[other].discard(client)
    return found


def _worst(against: Mapping[ClientId, set[ClientId]], bound: int) -> list[ClientId]:
    most = max(map(len, against.values()), default=0)
    if most <= bound:
        return []
    tied = {client for client, others in against.items() if len(others) == most}
    return sorted(client for client in tied if not against[client] & tied or len(against[client] - tied) > bound)


def distinct(what: str, ids: Iterable[ClientId]) -> None:
    """Raise `PeerError` for evidence that names one client twice."""
    listed = list(ids)
    if len(set(listed)) != len(listed):
        raise PeerError(f"evidence that counts {what} of one client twice")
