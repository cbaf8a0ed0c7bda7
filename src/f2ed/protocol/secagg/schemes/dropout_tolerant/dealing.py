"""How a client deals shares of its secrets to the others, and opens what they deal to it."""

from collections.abc import Sequence

import msgspec

from f2ed.core.errors import PeerError, Refusal
from f2ed.protocol.primitives.crypto import Keystream, derive, same, seal, sign, unseal, verify
from f2ed.protocol.primitives.hybrid import HYBRID, Encapsulated, HybridKey
from f2ed.protocol.secagg import shamir
from f2ed.protocol.secagg.member import Member, StepInput
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys, links, merkle
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Advertisement,
    Complaint,
    Link,
    Parcel,
    Shares,
    SignedParcel,
)
from f2ed.protocol.secagg.schemes.dropout_tolerant.phases import Advertised, HeldShares, PairRoot, Shared
from f2ed.protocol.secagg.terms import place
from f2ed.protocol.sharding import ClientId

__all__ = ["check_dealer", "complain", "deal", "open_parcel", "place_among"]


def deal(
    phase: Advertised, peers: Sequence[Advertisement], member: Member, given: StepInput
) -> tuple[bytes, Shares, tuple[PairRoot, ...]]:
    """Cut both secrets into shares, seal those of each peer, and sign the root of all parcels.

    Return that root, the reply, and the secrets of the masks that this client encapsulated.
    """
    masks = _cut(phase, phase.mask, given.entropy, b"mask coefficients")
    seeds = _cut(phase, phase.seed, given.entropy, b"seed coefficients")
    dealer = _Dealer(phase, given)
    parcels, roots = [], []
    for peer in peers:
        if peer.client == member.id:
            continue
        at = place(phase.terms, peer.client) - 1
        key, ciphertext = dealer.channel(peer)
        associated = keys.associated_data(phase.context, member.id, peer.client)
        sealed = seal(key, masks[at] + seeds[at], associated=associated)
        link, secret = dealer.link(peer)
        if link is not None:
            roots.append(PairRoot(peer.client, secret))
        mask, seed = (
            keys.share_commitment(phase.context, kind, member.id, peer.client, each)
            for kind, each in ((b"mask", masks[at]), (b"seed", seeds[at]))
        )
        parcels.append(Parcel(member.id, peer.client, sealed, mask, seed, ciphertext, link))
    root = merkle.root_of([keys.parcel_digest(parcel) for parcel in parcels])
    text = keys.parcels_text(phase.context, member.id, keys.advertised_digest(peers), root)
    return root, Shares(tuple(parcels), sign(member.signing_key, text)), tuple(roots)


class _Dealer:
    """Encapsulates for each peer: the key of its parcel, and the secret of the masks where this client sends it."""

    def __init__(self, phase: Advertised, given: StepInput) -> None:
        self._phase = phase
        self._channel, self._mask = (
            links.key_pair(phase.terms, phase.context, secret, label)
            for secret, label in ((phase.channel, b"channel"), (phase.mask, b"mask"))
        )
        self._encapsulate = given.encapsulate if phase.terms.agreement == HYBRID else lambda _: links.NOTHING

    def channel(self, peer: Advertisement) -> tuple[bytes, bytes]:
        """Return the key of the parcel to a peer, and the ciphertext from which the peer finds it."""
        made = self._encapsulate(peer.channel_kem)
        exchanged = self._channel.exchange(peer.channel)
        return links.channel_key(self._phase.context, self._phase.advertisement, peer, exchanged, made), made.ciphertext

    def link(self, peer: Advertisement) -> tuple[Link | None, bytes]:
        """Return what the parcel to a peer says about their masks, and their secret; nothing where the peer sends."""
        pair = links.pair_of(self._phase.terms, self._phase.advertisement, peer)
        if not pair.linked or pair.recipient != peer:
            return None, b""
        made = self._encapsulate(peer.mask_kem)
        root = links.mask_root(self._phase.context, pair, self._mask.exchange(peer.mask), made)
        return links.wrap(self._phase.context, pair, self._phase.mask, made), root


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


def open_parcel(phase: Shared, parcel: Parcel, channel: HybridKey, member: Member) -> HeldShares:
    """Unseal what a dealer entrusted to this client; raise `PeerError` if it is not what the dealer committed to."""
    public = {peer.client: peer for peer in phase.peers}
    dealer = public[parcel.dealer]
    made = Encapsulated(parcel.ciphertext, channel.decapsulate(parcel.ciphertext))
    key = links.channel_key(phase.context, dealer, public[member.id], channel.exchange(dealer.channel), made)
    plain = unseal(key, parcel.sealed, associated=keys.associated_data(phase.context, parcel.dealer, member.id))
    held = HeldShares(parcel.dealer, plain[: shamir.SHARE_BYTES], plain[shamir.SHARE_BYTES :])
    for kind, each, commitment in ((b"mask", held.mask, parcel.mask), (b"seed", held.seed, parcel.seed)):
        if not same(keys.share_commitment(phase.context, kind, parcel.dealer, member.id, each), commitment):
            raise PeerError("its dealer committed to another share than it sent")
    return held


def complain(phase: Shared, parcel: Parcel, member: Member, *, unlinked: bool) -> Complaint:
    """Sign that a parcel cannot be used. This opens no share and no key, so that a false complaint gains nothing."""
    complaint = Complaint(member.id, parcel.dealer, keys.parcel_digest(parcel), bytes(64), unlinked)
    signature = sign(member.signing_key, keys.complaint_text(phase.context, complaint))
    return msgspec.structs.replace(complaint, signature=signature)


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
