"""Keys, commitments and signed texts, each bound to its context and to the clients it concerns."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from f2ed.protocol.primitives.crypto import derive, digest
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.secagg.masks import Mask
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import COMMITMENT_BYTES, Advertisement
from f2ed.protocol.sharding import ClientId

__all__ = [
    "advertisement_text",
    "alive_text",
    "associated_data",
    "channel_key",
    "seed_commitment",
    "seed_mask",
    "share_commitment",
]


def advertisement_text(context: bytes, message: Advertisement) -> bytes:
    """Return the text signed with a round's keys."""
    return context + fields(b"advertise", unsigned(message.client), message.channel, message.mask, message.commitment)


def alive_text(context: bytes, alive: Sequence[ClientId]) -> bytes:
    """Return the text signed with the list of who is alive."""
    return context + fields(b"alive", digest(*map(unsigned, alive)))


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


def channel_key(context: bytes, agreed: bytes, dealer: ClientId, recipient: ClientId) -> bytes:
    """Return the key that seals the one parcel from dealer to recipient, from the secret that they agree on."""
    return derive(agreed, salt=context, info=fields(b"channel", unsigned(dealer), unsigned(recipient)))


def seed_mask(context: bytes, client: ClientId, seed: bytes) -> Mask:
    """Return the mask that hides a client's upload until enough members reveal its seed."""
    return Mask(derive(seed, salt=context, info=fields(b"self", unsigned(client))), negative=False)


@lru_cache(maxsize=256)
def _share_prefix(context: bytes, kind: bytes) -> bytes:
    """Return the common prefix of a round's share commitments; a server checks one for each pair of members."""
    return fields(context, b"share", kind)
