"""What the two members of a pair derive alike: who sends the ciphertext, the root of their chain, what is signed."""

from collections.abc import Sequence

from f2ed.protocol.primitives.crypto import digest
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.primitives.hybrid import combine
from f2ed.protocol.secagg.keys import sends
from f2ed.protocol.secagg.messages import SignedKey
from f2ed.protocol.sharding import ClientId

__all__ = ["key_text", "keyset_digest", "recipients", "root", "senders", "wraps_text"]


def recipients(members: Sequence[ClientId], client: ClientId) -> tuple[ClientId, ...]:
    """Return whom a member sends a ciphertext: of every pair one does, and all send to about half of the others."""
    return tuple(peer for peer in members if peer != client and sends(members, client, peer))


def senders(members: Sequence[ClientId], client: ClientId) -> tuple[ClientId, ...]:
    """Return who sends a member a ciphertext: all others to whom it sends none."""
    return tuple(peer for peer in members if peer != client and sends(members, peer, client))


def key_text(context: bytes, message: SignedKey) -> bytes:
    """Return the text signed with an epoch's keys."""
    return context + fields(b"epoch key", unsigned(message.client), message.key, message.kem)


def keyset_digest(keys: Sequence[SignedKey]) -> bytes:
    """Return the digest of all members' keys."""
    return digest(b"keyset", *(part for each in keys for part in (unsigned(each.client), each.key, each.kem)))


def wraps_text(context: bytes, keyset: bytes, client: ClientId, digests: Sequence[bytes]) -> bytes:
    """Return the text signed with a member's ciphertexts, which stand in the order of their recipients."""
    return context + fields(b"wraps", keyset, unsigned(client), *digests)


def root(
    context: bytes,
    *,
    sender: ClientId,
    recipient: ClientId,
    keys: tuple[bytes, bytes],
    recipient_kem: bytes,
    ciphertext: bytes,
    exchanged: bytes,
    encapsulated: bytes,
) -> bytes:
    """Return the first key of a pair's chain, bound to all that is public about it; `keys` are theirs of X25519."""
    transcript = fields(b"pair", unsigned(sender), unsigned(recipient), *keys, recipient_kem, ciphertext)
    return combine(exchanged, encapsulated, salt=context, transcript=transcript)
