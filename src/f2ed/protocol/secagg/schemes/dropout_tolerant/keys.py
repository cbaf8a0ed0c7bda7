"""Keys, commitments and signed texts, each bound to its context and to the clients it concerns."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from f2ed.protocol.primitives.crypto import derive, digest, same
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.primitives.hybrid import Agreement, HybridKey, PublicKeys
from f2ed.protocol.secagg.masks import Mask
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    COMMITMENT_BYTES,
    Advertisement,
    Complaint,
    Parcel,
)
from f2ed.protocol.sharding import ClientId

__all__ = [
    "advertised_digest",
    "advertisement_text",
    "alive_text",
    "associated_data",
    "complaint_text",
    "leaf",
    "matches",
    "parcel_digest",
    "parcels_text",
    "sealed_digest",
    "seed_commitment",
    "seed_mask",
    "share_commitment",
    "upload_tag",
    "view_digest",
]


def advertisement_text(context: bytes, message: Advertisement) -> bytes:
    """Return the text signed with a round's keys."""
    return context + fields(b"advertise", *_advertised(message))


def advertised_digest(peers: Iterable[Advertisement]) -> bytes:
    """Return the digest of all advertisements of a round (U1), with their signatures."""
    return digest(*(part for each in peers for part in (*_advertised(each), each.signature)))


def parcel_digest(parcel: Parcel) -> bytes:
    """Return the digest of a parcel."""
    return leaf(parcel.recipient, sealed_digest(parcel), parcel.mask, parcel.seed)


def sealed_digest(parcel: Parcel) -> bytes:
    """Return the digest of all of a parcel but the commitments to its shares."""
    link = parcel.link
    linked = (link.ciphertext, link.wrapped, link.commitment) if link else ()
    return digest(b"sealed", parcel.sealed, parcel.ciphertext, *linked)


def leaf(recipient: ClientId, sealed: bytes, mask: bytes, seed: bytes) -> bytes:
    """Return the digest of a parcel from its parts, so that its commitments can be shown without the rest."""
    return digest(b"parcel", unsigned(recipient), sealed, mask, seed)


def parcels_text(context: bytes, dealer: ClientId, advertised: bytes, root: bytes) -> bytes:
    """Return the text signed with the root of all parcels that a client deals to those who advertised."""
    return context + fields(b"parcels", unsigned(dealer), advertised, root)


def complaint_text(context: bytes, complaint: Complaint) -> bytes:
    """Return the text signed with a complaint."""
    about = (unsigned(complaint.client), unsigned(complaint.dealer), complaint.parcel, unsigned(complaint.unlinked))
    return context + fields(b"complaint", *about)


def view_digest(advertised: bytes, dealt: Mapping[ClientId, tuple[bytes, bytes]]) -> bytes:
    """Return the digest of what all members must have seen alike: U1, and root and signature of each in U2."""
    return digest(advertised, *(part for dealer in sorted(dealt) for part in (unsigned(dealer), *dealt[dealer])))


def upload_tag(context: bytes, view: bytes) -> bytes:
    """Return what marks an upload as masked for this view; one that was masked for another would spoil the sum."""
    return digest(context, b"upload", view)


def alive_text(context: bytes, view: bytes, alive: Sequence[ClientId]) -> bytes:
    """Return the text signed with the list of who is alive; `view` is the digest of what led to it."""
    return context + fields(b"alive", view, digest(*map(unsigned, alive)))


def seed_commitment(context: bytes, client: ClientId, seed: bytes) -> bytes:
    """Return the commitment to a self seed."""
    return digest(context, b"seed", unsigned(client), seed)


def share_commitment(context: bytes, kind: bytes, dealer: ClientId, recipient: ClientId, share: bytes) -> bytes:
    """Return the commitment to one share; `kind` is b"mask" or b"seed"."""
    text = _share_prefix(context, kind) + fields(unsigned(dealer), unsigned(recipient), share)
    return hashlib.sha256(text).digest()[:COMMITMENT_BYTES]


def associated_data(context: bytes, dealer: ClientId, recipient: ClientId) -> bytes:
    """Return what a sealed parcel is bound to."""
    return fields(context, unsigned(dealer), unsigned(recipient))


def seed_mask(context: bytes, client: ClientId, seed: bytes) -> Mask:
    """Return the mask that hides a client's upload until enough members reveal its seed."""
    return Mask(derive(seed, salt=context, info=fields(b"self", unsigned(client))), negative=False)


@lru_cache(maxsize=256)
def _share_prefix(context: bytes, kind: bytes) -> bytes:
    """Return the common prefix of a round's share commitments; a server checks one for each pair of members."""
    return fields(context, b"share", kind)


def matches(context: bytes, advertised: Advertisement, number: int, *, alive: bool, kind: Agreement) -> bytes:
    """Return the seed or mask secret that was rebuilt if it is the one that was advertised, or else b""."""
    if number >= 2**256:
        return b""
    secret = number.to_bytes(32, "big")
    if alive:
        return secret if same(seed_commitment(context, advertised.client, secret), advertised.commitment) else b""
    public = HybridKey(secret, salt=context, label=b"mask", kind=kind).public
    return secret if public == PublicKeys(advertised.mask, advertised.mask_kem) else b""


def _advertised(message: Advertisement) -> tuple[bytes, ...]:
    public = (message.channel, message.mask, message.channel_kem, message.mask_kem)
    return unsigned(message.client), *public, message.commitment
