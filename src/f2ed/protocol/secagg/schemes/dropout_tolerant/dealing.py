"""How a client deals shares of its secrets to the others, and opens what they deal to it."""

from collections.abc import Sequence

from f2ed.core.errors import PeerError, Refusal
from f2ed.protocol.primitives.crypto import Keystream, agreement, derive, same, seal, sign, unseal, verify
from f2ed.protocol.secagg import shamir
from f2ed.protocol.secagg.member import Member
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys, merkle
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Advertisement,
    Complaint,
    Parcel,
    Shares,
    SignedParcel,
)
from f2ed.protocol.secagg.schemes.dropout_tolerant.phases import Advertised, HeldShares, Shared
from f2ed.protocol.secagg.terms import place
from f2ed.protocol.sharding import ClientId

__all__ = ["check_dealer", "complain", "deal", "open_parcel", "place_among"]


def deal(phase: Advertised, peers: Sequence[Advertisement], member: Member, entropy: bytes) -> tuple[bytes, Shares]:
    """Cut both secrets into shares, seal those of each peer, and sign the root of all parcels; return it as well."""
    masks = _cut(phase, phase.mask, entropy, b"mask coefficients")
    seeds = _cut(phase, phase.seed, entropy, b"seed coefficients")
    agree = agreement(phase.channel)
    parcels = []
    for peer in peers:
        if peer.client == member.id:
            continue
        at = place(phase.terms, peer.client) - 1
        key = keys.channel_key(phase.context, agree(peer.channel), member.id, peer.client)
        sealed = seal(
            key, masks[at] + seeds[at], associated=keys.associated_data(phase.context, member.id, peer.client)
        )
        commitments = (
            keys.share_commitment(phase.context, kind, member.id, peer.client, each)
            for kind, each in ((b"mask", masks[at]), (b"seed", seeds[at]))
        )
        parcels.append(Parcel(member.id, peer.client, sealed, *commitments))
    root = merkle.root_of([keys.parcel_digest(parcel) for parcel in parcels])
    text = keys.parcels_text(phase.context, member.id, keys.advertised_digest(peers), root)
    return root, Shares(tuple(parcels), sign(member.signing_key, text))


def check_dealer(phase: Shared, signed: SignedParcel, advertised: bytes, member: Member) -> bytes:
    """Return the root of the dealer's parcels, or refuse a parcel that its dealer did not sign: the server's fault."""
    parcel = signed.parcel
    if parcel.recipient != member.id:
        raise Refusal(f"a parcel for client {parcel.recipient} was delivered to client {member.id}")
    at, count = place_among(phase.peers, parcel.dealer, member.id)
    try:
        root = merkle.root_from(keys.parcel_digest(parcel), at, count, signed.path)
        text = keys.parcels_text(phase.context, parcel.dealer, advertised, root)
        verify(member.roster[parcel.dealer], text, signed.signature)
    except PeerError as error:
        raise Refusal(
            f"the parcel of client {parcel.dealer} is not as its dealer signed it ({error}); the server changed it, or "
            "gave its dealer other keys"
        ) from None
    return root


def open_parcel(phase: Shared, parcel: Parcel, agreed: bytes, member: Member) -> HeldShares:
    """Unseal what a dealer entrusted to this client; raise `PeerError` if it is not what the dealer committed to."""
    key = keys.channel_key(phase.context, agreed, parcel.dealer, member.id)
    plain = unseal(key, parcel.sealed, associated=keys.associated_data(phase.context, parcel.dealer, member.id))
    held = HeldShares(parcel.dealer, plain[: shamir.SHARE_BYTES], plain[shamir.SHARE_BYTES :])
    for kind, each, commitment in ((b"mask", held.mask, parcel.mask), (b"seed", held.seed, parcel.seed)):
        if not same(keys.share_commitment(phase.context, kind, parcel.dealer, member.id, each), commitment):
            raise PeerError("its dealer committed to another share than it sent")
    return held


def complain(phase: Shared, parcel: Parcel, member: Member) -> Complaint:
    """Sign that a parcel cannot be used. This opens no share and no key, so that a false complaint gains nothing."""
    complaint = Complaint(member.id, parcel.dealer, keys.parcel_digest(parcel), bytes(64))
    signature = sign(member.signing_key, keys.complaint_text(phase.context, complaint))
    return Complaint(complaint.client, complaint.dealer, complaint.parcel, signature)


def place_among(peers: Sequence[Advertisement], dealer: ClientId, recipient: ClientId) -> tuple[int, int]:
    """Return the place of a recipient among those to whom a client deals, and their number."""
    others = [peer.client for peer in peers if peer.client != dealer]
    return others.index(recipient), len(others)


def _cut(phase: Advertised, secret: bytes, entropy: bytes, info: bytes) -> list[bytes]:
    terms = phase.terms
    length = 48 * (terms.threshold - 1)
    stream = bytearray(length)
    Keystream(derive(entropy, salt=phase.context, info=info)).fill(memoryview(stream))
    coefficients = shamir.coefficients_from(bytes(stream), terms.threshold - 1)
    shares = shamir.split(int.from_bytes(secret, "big"), coefficients, len(terms.members))
    return [each.to_bytes(shamir.SHARE_BYTES, "big") for each in shares]
