"""What two members agree on: the key of a parcel, and the secret of their masks.

Of every pair one member encapsulates the ML-KEM secret of the masks and wraps it under its own mask secret. So the mask
secret of either of them suffices to rebuild their masks: the recipient decapsulates, the sender unwraps.
"""

from typing import NamedTuple

from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.crypto import derive, digest, same
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.primitives.hybrid import HYBRID, Encapsulated, HybridKey, PublicKeys, combine
from f2ed.protocol.secagg.keys import sends
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Advertisement, Link
from f2ed.protocol.secagg.terms import Terms
from f2ed.protocol.sharding import ClientId

__all__ = [
    "NOTHING",
    "MaskSecret",
    "Pair",
    "channel_key",
    "key_pair",
    "mask_root",
    "mask_secret",
    "pair_of",
    "public_keys",
    "rebuild",
    "wrap",
]

NOTHING = Encapsulated(b"", b"")
"""What is encapsulated where X25519 is used alone."""


class Pair(NamedTuple):
    """Two members of a round; `linked` says whether the sender's parcel carries a ciphertext for their masks."""

    sender: Advertisement
    recipient: Advertisement
    linked: bool


class MaskSecret(NamedTuple):
    """The mask secret of a member, and the keys that follow from it."""

    client: ClientId
    secret: bytes
    key: HybridKey

    def __repr__(self) -> str:
        """Show no secret."""
        return f"MaskSecret(client={self.client}, <secret>)"


def mask_secret(terms: Terms, context: bytes, client: ClientId, secret: bytes) -> MaskSecret:
    """Return a mask secret with its keys, which are loaded once for all pairs."""
    return MaskSecret(client, secret, key_pair(terms, context, secret, b"mask"))


def pair_of(terms: Terms, one: Advertisement, other: Advertisement) -> Pair:
    """Return the two in the roles that everyone derives alike."""
    first = sends(terms.members, one.client, other.client)
    return Pair(*((one, other) if first else (other, one)), linked=terms.agreement == HYBRID)


def key_pair(terms: Terms, context: bytes, secret: bytes, label: bytes) -> HybridKey:
    """Return the keys that follow from a channel or mask secret; `label` is b"channel" or b"mask"."""
    return HybridKey(secret, salt=context, label=label, kind=terms.agreement)


def public_keys(message: Advertisement) -> tuple[PublicKeys, PublicKeys]:
    """Return the channel and mask keys that a member advertised."""
    return PublicKeys(message.channel, message.channel_kem), PublicKeys(message.mask, message.mask_kem)


def channel_key(
    context: bytes, dealer: Advertisement, recipient: Advertisement, exchanged: bytes, made: Encapsulated
) -> bytes:
    """Return the key that seals the one parcel from dealer to recipient, bound to all that is public about it."""
    ids = (unsigned(dealer.client), unsigned(recipient.client))
    public = (dealer.channel, recipient.channel, recipient.channel_kem, made.ciphertext)
    return combine(exchanged, made.secret, salt=context, transcript=fields(b"channel", *ids, *public))


def mask_root(context: bytes, pair: Pair, exchanged: bytes, made: Encapsulated) -> bytes:
    """Return the secret of a pair's masks, bound to all that is public about it."""
    ids = (unsigned(pair.sender.client), unsigned(pair.recipient.client))
    public = (pair.sender.mask, pair.recipient.mask, pair.recipient.mask_kem, made.ciphertext)
    return combine(exchanged, made.secret, salt=context, transcript=fields(b"pair", *ids, *public))


def wrap(context: bytes, pair: Pair, secret: bytes, made: Encapsulated) -> Link:
    """Return what the sender deals to the recipient; `secret` is the mask secret of the sender."""
    wrapped = _xor(made.secret, _pad(context, secret, pair.recipient.client))
    return Link(made.ciphertext, wrapped, _commitment(context, pair, made))


def rebuild(context: bytes, pair: Pair, link: Link | None, own: MaskSecret) -> bytes:
    """Return the secret of a pair's masks from the mask secret of one of them, or raise `PeerError`."""
    sent = own.client == pair.sender.client
    exchanged = own.key.exchange((pair.recipient if sent else pair.sender).mask)
    if not pair.linked:
        return mask_root(context, pair, exchanged, NOTHING)
    if link is None:
        raise PeerError("no ciphertext for the masks of a pair")
    pad = _pad(context, own.secret, pair.recipient.client) if sent else b""
    found = _xor(link.wrapped, pad) if sent else own.key.decapsulate(link.ciphertext)
    made = Encapsulated(link.ciphertext, found)
    if not same(_commitment(context, pair, made), link.commitment):
        raise PeerError("a ciphertext for the masks of a pair that does not hold what its sender committed to")
    return mask_root(context, pair, exchanged, made)


def _commitment(context: bytes, pair: Pair, made: Encapsulated) -> bytes:
    """Return the commitment to a pair's ML-KEM secret: all of SHA-256, since its sender might seek a collision."""
    ids = (unsigned(pair.sender.client), unsigned(pair.recipient.client))
    return digest(context, b"link", *ids, made.ciphertext, made.secret)


def _pad(context: bytes, secret: bytes, recipient: ClientId) -> bytes:
    return derive(secret, salt=context, info=fields(b"wrap", unsigned(recipient)))


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
