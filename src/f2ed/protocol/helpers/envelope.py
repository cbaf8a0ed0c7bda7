"""A client's upload: its row under two masks, and an envelope with the seeds of the masks.

x = E + PRG(a) + PRG(b) modulo p. The server holds E and b, the mixer a, the judge a and b: each of them lacks one part,
and what a party holds is uniformly random without it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.core.errors import PeerError
from f2ed.protocol.helpers.field import Elements, P, expand, from_integers, pack, reduce, unpack
from f2ed.protocol.helpers.keys import Openings, commitment, mask_key
from f2ed.protocol.helpers.messages import Envelope, Upload
from f2ed.protocol.helpers.row_chunks import row_digest
from f2ed.protocol.helpers.terms import JUDGE, MIXER, ROLES, SERVER, Role, Terms
from f2ed.protocol.primitives.crypto import (
    KEY_BYTES,
    ExchangeKey,
    Keystream,
    derive,
    digest,
    same,
    seal,
    sign,
    unseal,
    verify,
)
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.primitives.hybrid import HYBRID, Encapsulate, Encapsulated, HybridKey, combine
from f2ed.protocol.sharding import ClientId

__all__ = ["Seeds", "check_envelope", "envelope_digest", "make_upload", "open_envelope", "open_row"]

_P = np.uint64(P)
_BLOCK = 1 << 15


class Seeds(NamedTuple):
    """The seeds that a party found in an envelope; empty where it may not know one."""

    mixer: bytes
    server: bytes

    def __repr__(self) -> str:
        """Show no secret."""
        return "Seeds(<secret>)"


def make_upload(
    numbers: npt.NDArray[np.int64],
    terms: Terms,
    context: bytes,
    *,
    client: ClientId,
    signing_key: bytes,
    openings: Openings,
    entropy: bytes,
    encapsulate: Encapsulate,
) -> Upload:
    """Mask an encoded update and seal the seeds; `entropy` is 32 fresh bytes."""
    seeds = Seeds(
        derive(entropy, salt=context, info=b"f2ed helpers mixer seed"),
        derive(entropy, salt=context, info=b"f2ed helpers server seed"),
    )
    row = pack(_masked(numbers, context, client, seeds))
    agree = ExchangeKey(derive(entropy, salt=context, info=b"f2ed helpers exchange"))
    public = agree.public
    plain = {SERVER: seeds.server, MIXER: seeds.mixer, JUDGE: seeds.mixer + seeds.server}
    roots, ciphertexts, sealed = [], [], []
    for role, opening in zip(ROLES, openings, strict=True):
        made = encapsulate(opening.kem) if terms.agreement == HYBRID else Encapsulated(b"", b"")
        transcript = _transcript(role, client, public, (opening.exchange, opening.kem), made.ciphertext)
        root = combine(agree(opening.exchange), made.secret, salt=context, transcript=transcript)
        roots.append(root)
        ciphertexts.append(made.ciphertext)
        sealed.append(seal(_part(root, b"seeds"), plain[role], associated=_associated(context, client)))
    unsigned_ = Envelope(
        client,
        context,
        commitment(context, client, MIXER, seeds.mixer),
        commitment(context, client, SERVER, seeds.server),
        row_digest(row),
        public,
        (ciphertexts[0], ciphertexts[1], ciphertexts[2]),
        (sealed[0], sealed[1], sealed[2]),
        bytes(64),
    )
    envelope = _signed(unsigned_, signing_key)
    sealed_row = seal(_part(roots[0], b"row"), row, associated=_associated(context, client))
    return Upload(envelope, memoryview(sealed_row))


def check_envelope(envelope: Envelope, terms: Terms, context: bytes, roster: Mapping[ClientId, bytes]) -> None:
    """Raise `PeerError` unless a member signed this envelope for this context."""
    if envelope.client not in terms.members:
        raise PeerError(f"client {envelope.client} is not among the members of this round")
    if envelope.context != context:
        raise PeerError("an envelope for another context: another round, model, policy or other terms")
    verify(roster[envelope.client], _text(envelope), envelope.signature)


def open_envelope(envelope: Envelope, role: Role, key: HybridKey, context: bytes) -> Seeds:
    """Return the seeds sealed to a party, or raise `PeerError` where they do not open or match their commitments."""
    plain = _unsealed(envelope, role, key, context, b"seeds", envelope.sealed[ROLES.index(role)])
    if len(plain) != KEY_BYTES * (2 if role == JUDGE else 1):
        raise PeerError(f"sealed seeds of {len(plain)} bytes")
    seeds = Seeds(
        plain[:KEY_BYTES] if role in (MIXER, JUDGE) else b"", plain[-KEY_BYTES:] if role in (SERVER, JUDGE) else b""
    )
    for owner, seed, committed in (
        (MIXER, seeds.mixer, envelope.mixer_commitment),
        (SERVER, seeds.server, envelope.server_commitment),
    ):
        if seed and not same(commitment(context, envelope.client, owner, seed), committed):
            raise PeerError(f"the seed that it shares with the {owner} is not the one that it committed to")
    return seeds


def open_row(upload: Upload, key: HybridKey, terms: Terms, context: bytes) -> Elements:
    """Return the masked row that was sealed to the server, or raise `PeerError`."""
    row = _unsealed(upload.envelope, SERVER, key, context, b"row", upload.row)
    if not same(row_digest(row), upload.envelope.row):
        raise PeerError("the masked row is not the one that its envelope names")
    return unpack(row, terms.coordinates)


def envelope_digest(envelope: Envelope) -> bytes:
    """Return the digest by which a set of clients names an envelope."""
    return digest(_text(envelope), envelope.signature)


def _masked(numbers: npt.NDArray[np.int64], context: bytes, client: ClientId, seeds: Seeds) -> Elements:
    row = from_integers(numbers)
    streams = [
        Keystream(mask_key(context, client, MIXER, seeds.mixer)),
        Keystream(mask_key(context, client, SERVER, seeds.server)),
    ]
    mask = np.empty(min(_BLOCK, len(row)), np.uint64)
    for start in range(0, len(row), _BLOCK):
        block = row[start : start + _BLOCK]
        part = mask[: len(block)]
        for stream in streams:
            expand(stream, part)
            part ^= _P  # its negative
            block += part
        block[:] = reduce(block)
    return row


def _unsealed(
    envelope: Envelope, role: Role, key: HybridKey, context: bytes, what: bytes, sealed: bytes | memoryview
) -> bytes:
    ciphertext = envelope.ciphertexts[ROLES.index(role)]
    public = key.public
    transcript = _transcript(role, envelope.client, envelope.exchange, (public.exchange, public.kem), ciphertext)
    exchanged, encapsulated = key.exchange(envelope.exchange), key.decapsulate(ciphertext)
    root = combine(exchanged, encapsulated, salt=context, transcript=transcript)
    try:
        return unseal(_part(root, what), sealed, associated=_associated(context, envelope.client))
    except ValueError:  # too short to hold a tag
        raise PeerError("a sealed message that does not open: too short") from None


def _transcript(
    role: Role, client: ClientId, exchange: bytes, recipient: tuple[bytes, bytes], ciphertext: bytes
) -> bytes:
    return fields(b"f2ed helpers seal", role.encode(), unsigned(client), exchange, *recipient, ciphertext)


def _part(root: bytes, what: bytes) -> bytes:
    return derive(root, salt=b"", info=b"f2ed helpers " + what)


def _associated(context: bytes, client: ClientId) -> bytes:
    return fields(context, unsigned(client))


def _text(envelope: Envelope) -> bytes:
    return fields(
        b"f2ed helpers envelope 1",
        unsigned(envelope.client),
        envelope.context,
        envelope.mixer_commitment,
        envelope.server_commitment,
        envelope.row,
        envelope.exchange,
        *envelope.ciphertexts,
        *envelope.sealed,
    )


def _signed(envelope: Envelope, signing_key: bytes) -> Envelope:
    return msgspec.structs.replace(envelope, signature=sign(signing_key, _text(envelope)))
