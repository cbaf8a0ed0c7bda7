"""Every key, commitment and signed text of the protocol, each bound to its context and to the clients it concerns."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from f2ed.protocol.primitives.crypto import derive, digest
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.secagg.masks import Mask
from f2ed.protocol.secagg.messages import COMMITMENT_BYTES, Advertisement, SignedKey
from f2ed.protocol.sharding import ClientId

__all__ = [
    "advertised",
    "associated",
    "channel_key",
    "confirmed",
    "epoch_key",
    "pair_mask",
    "seed_commitment",
    "seed_mask",
    "share_commitment",
]


def epoch_key(context: bytes, message: SignedKey) -> bytes:
    """Return the text signed with an epoch's key."""
    return context + fields(b"epoch key", unsigned(message.client), message.key)


def advertised(context: bytes, message: Advertisement) -> bytes:
    """Return the text signed with a round's keys."""
    return context + fields(b"advertise", unsigned(message.client), message.channel, message.mask, message.commitment)


def confirmed(context: bytes, alive: Sequence[ClientId]) -> bytes:
    """Return the text signed with the list of who is alive."""
    return context + fields(b"alive", digest(*map(unsigned, alive)))


def seed_commitment(context: bytes, client: ClientId, seed: bytes) -> bytes:
    """Return the commitment to a self seed."""
    return digest(context, b"seed", unsigned(client), seed)


def share_commitment(context: bytes, kind: bytes, dealer: ClientId, recipient: ClientId, share: bytes) -> bytes:
    """Return the commitment to one share; `kind` is b"mask" or b"seed"."""
    text = _share_prefix(context, kind) + fields(unsigned(dealer), unsigned(recipient), share)
    return hashlib.sha256(text).digest()[:COMMITMENT_BYTES]


def associated(context: bytes, dealer: ClientId, recipient: ClientId) -> bytes:
    """Return what a parcel is bound to."""
    return fields(context, unsigned(dealer), unsigned(recipient))


def channel_key(context: bytes, agreed: bytes, dealer: ClientId, recipient: ClientId) -> bytes:
    """Return the key that seals the one parcel from dealer to recipient, from the secret that they agree on."""
    return derive(agreed, salt=context, info=fields(b"channel", unsigned(dealer), unsigned(recipient)))


def pair_mask(context: bytes, agreed: bytes, mine: ClientId, other: ClientId) -> Mask:
    """Return the mask that `mine` applies for the pair; the other applies the same with the opposite sign."""
    info = fields(b"mask", unsigned(min(mine, other)), unsigned(max(mine, other)))
    return Mask(derive(agreed, salt=context, info=info), negative=other < mine)


def seed_mask(context: bytes, client: ClientId, seed: bytes) -> Mask:
    """Return the mask that hides a client's upload until enough members reveal its seed."""
    return Mask(derive(seed, salt=context, info=fields(b"self", unsigned(client))), negative=False)


@lru_cache(maxsize=256)
def _share_prefix(context: bytes, kind: bytes) -> bytes:
    """Return what the commitments of a whole round begin with: a server checks the square of its members' number."""
    return fields(context, b"share", kind)
