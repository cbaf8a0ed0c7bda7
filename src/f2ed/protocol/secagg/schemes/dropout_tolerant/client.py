"""The client's side, step by step."""

from collections.abc import Mapping, Sequence

import msgspec

from f2ed.core.errors import PeerError, Refusal
from f2ed.protocol.primitives.crypto import derive, sign, verify
from f2ed.protocol.primitives.hybrid import HybridKey, check_public_keys
from f2ed.protocol.secagg.keys import pair_mask
from f2ed.protocol.secagg.member import Member, StepInput, begin, masked_upload
from f2ed.protocol.secagg.messages import Request, in_order
from f2ed.protocol.secagg.schemes.base import ClientStep
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys, links
from f2ed.protocol.secagg.schemes.dropout_tolerant.dealing import check_dealer, complain, deal, open_parcel
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Advertisement,
    Alive,
    Confirmation,
    Confirmations,
    Delivery,
    Invite,
    Parcel,
    Peers,
    Reveal,
    Share,
    Shares,
    SignedParcel,
    TolerantUpload,
)
from f2ed.protocol.secagg.schemes.dropout_tolerant.phases import Advertised, Confirmed, HeldShares, Masked, Shared
from f2ed.protocol.secagg.state import ClientState
from f2ed.protocol.secagg.terms import Terms, bind, torn
from f2ed.protocol.sharding import ClientId

__all__ = ["STEPS"]


def advertise(
    request: Invite, state: ClientState, member: Member, given: StepInput
) -> tuple[ClientState, Advertisement]:
    """Step 0: make this round's keys and publish their public halves."""
    terms = request.terms
    state = begin(state, terms)
    context = bind(terms, member.roster, given.model)
    channel, mask, seed = (derive(given.entropy, salt=context, info=name) for name in (b"channel", b"mask", b"seed"))
    pairs = ((channel, b"channel"), (mask, b"mask"))
    (one, one_kem), (two, two_kem) = (links.key_pair(terms, context, *each).public for each in pairs)
    message = Advertisement(
        member.id,
        one,
        two,
        one_kem,
        two_kem,
        keys.seed_commitment(context, member.id, seed),
        bytes(64),
    )
    signature = sign(member.signing_key, keys.advertisement_text(context, message))
    message = msgspec.structs.replace(message, signature=signature)
    return msgspec.structs.replace(state, phase=Advertised(terms, context, channel, mask, seed, message)), message


def share(request: Peers, state: ClientState, member: Member, given: StepInput) -> tuple[ClientState, Shares]:
    """Step 1: share the mask key and the seed among everyone who advertised."""
    phase = state.phase
    if not isinstance(phase, Advertised):
        raise _out_of_order("the members' keys", state)
    peers = request.advertisements
    _check_peers(phase, peers, member)
    root, message, roots = deal(phase, peers, member, given)
    own = (root, message.signature)
    after = Shared(phase.terms, phase.context, phase.channel, phase.mask, phase.seed, peers, own, roots)
    return msgspec.structs.replace(state, phase=after), message


def upload(
    request: Delivery, state: ClientState, member: Member, given: StepInput
) -> tuple[ClientState, TolerantUpload]:
    """Step 2: mask the update for everyone who shared; this client's own keys are erased here.

    A parcel that its dealer signed and that cannot be used is the dealer's fault: this client complains and stays.
    """
    phase = state.phase
    if not isinstance(phase, Shared):
        raise _out_of_order("the shares", state)
    _check_parcels(phase, request.parcels, member)
    view = _view(phase, request.parcels, member)
    channel = links.key_pair(phase.terms, phase.context, phase.channel, b"channel")
    own = links.mask_secret(phase.terms, phase.context, member.id, phase.mask)
    held, complaints = [], []
    masks = [keys.seed_mask(phase.context, member.id, phase.seed)]
    for each in request.parcels:
        root = _root(phase, each.parcel, own)
        masks += [pair_mask(phase.context, root, member.id, each.parcel.dealer)] if root else []
        shares = _opened(phase, each.parcel, channel, member) if root else None
        if shares is None:
            complaints.append(complain(phase, each.parcel, member, unlinked=not root))
        else:
            held.append(shares)
    disputed = tuple(each.dealer for each in complaints)
    after = Masked(phase.terms, phase.context, phase.seed, tuple(held), disputed, view)
    sent = masked_upload(phase.terms, keys.upload_tag(phase.context, view), masks, given)
    return msgspec.structs.replace(state, phase=after), TolerantUpload(sent.tag, sent.payload, tuple(complaints))


def confirm(
    request: Alive,
    state: ClientState,
    member: Member,
    given: StepInput,  # noqa: ARG001  all steps have the same signature
) -> tuple[ClientState, Confirmation]:
    """Step 3: sign who is alive, so that the others can see that all received the same list."""
    phase = state.phase
    if not isinstance(phase, Masked):
        raise _out_of_order("the list of who is alive", state)
    _check_alive(phase, request.clients, member)
    if member.survivors is not None:
        member.survivors(phase.terms, request.clients)
    signature = sign(member.signing_key, keys.alive_text(phase.context, phase.view, request.clients))
    return msgspec.structs.replace(state, phase=Confirmed(phase, request.clients)), Confirmation(member.id, signature)


def reveal(
    request: Confirmations,
    state: ClientState,
    member: Member,
    given: StepInput,  # noqa: ARG001  all steps have the same signature
) -> tuple[ClientState, Reveal]:
    """Step 4: reveal one share per dealer, once enough members signed the same list."""
    phase = state.phase
    if not isinstance(phase, Confirmed):
        raise _out_of_order("the confirmations", state)
    signers = [each.client for each in request.signatures]
    in_order("confirmations", signers)
    if strangers := set(signers) - set(phase.alive):
        raise Refusal(f"a confirmation from client {min(strangers)}, which is not alive")
    if member.id not in signers:
        raise Refusal("this client's own confirmation is absent")
    if len(signers) < phase.masked.terms.threshold:
        raise Refusal(f"{len(signers)} confirmed who is alive; it takes {phase.masked.terms.threshold}")
    text = keys.alive_text(phase.masked.context, phase.masked.view, phase.alive)
    for each in request.signatures:
        try:
            verify(member.roster[each.client], text, each.signature)
        except PeerError:
            raise Refusal(
                f"client {each.client} confirmed another list of who is alive, other keys or other parcels, or none: "
                "a split view"
            ) from None
    return _reveal(phase.masked, phase.alive, state)


def _out_of_order(what: str, state: ClientState) -> Refusal:
    stage = type(state.phase).__name__.lower() if state.phase else "not in a round"
    return Refusal(f"{what} came out of order or twice; this client is at: {stage}")


def _enough(did: str, count: int, terms: Terms) -> None:
    needed = max(terms.threshold, terms.min_crowd)
    if count < needed:
        raise Refusal(f"{count} members {did}; this round needs {needed}")


def _check_peers(phase: Advertised, peers: Sequence[Advertisement], member: Member) -> None:
    """Check U1: this client as it advertised, everyone else under the roster's key, and no key twice."""
    in_order("keys", [peer.client for peer in peers])
    if strangers := {peer.client for peer in peers} - set(phase.terms.members):
        raise Refusal(f"the keys of client {min(strangers)}, which is not a member")
    if phase.advertisement not in peers:
        raise Refusal("this client's own keys are absent or were replaced")
    _enough("advertised", len(peers), phase.terms)
    published = [key for peer in peers for pair in links.public_keys(peer) for key in pair if key]
    if len(set(published)) != len(published):
        raise Refusal("two equal keys among the members: one impersonates another")
    for peer in peers:
        try:
            for pair in links.public_keys(peer):
                check_public_keys(pair, phase.terms.agreement)
            verify(member.roster[peer.client], keys.advertisement_text(phase.context, peer), peer.signature)
        except PeerError as error:
            raise Refusal(f"the keys of client {peer.client} come with {error}") from None


def _check_parcels(phase: Shared, parcels: Sequence[SignedParcel], member: Member) -> None:
    """Check U2: at most one parcel of each peer, and of enough of them."""
    dealers = [each.parcel.dealer for each in parcels]
    in_order("parcels", dealers)
    peers = {peer.client for peer in phase.peers} - {member.id}
    if wrong := [dealer for dealer in dealers if dealer not in peers]:
        raise Refusal(f"a parcel from client {wrong[0]}, which is not a peer in this round")
    _enough("shared", len(parcels) + 1, phase.terms)


def _view(phase: Shared, parcels: Sequence[SignedParcel], member: Member) -> bytes:
    """Return the digest of what all members must have seen alike, once every parcel is as its dealer signed it."""
    advertised = keys.advertised_digest(phase.peers)
    dealt = {each.parcel.dealer: (check_dealer(phase, each, advertised, member), each.signature) for each in parcels}
    return keys.view_digest(advertised, dealt | {member.id: phase.dealt})


def _root(phase: Shared, parcel: Parcel, own: links.MaskSecret) -> bytes:
    """Return the secret of the masks with a dealer, or b"" if what it sent for them cannot be used."""
    if sent := [each.root for each in phase.roots if each.peer == parcel.dealer]:
        return sent[0]
    public = {peer.client: peer for peer in phase.peers}
    pair = links.pair_of(phase.terms, public[parcel.dealer], public[own.client])
    try:
        return links.rebuild(phase.context, pair, parcel.link, own)
    except PeerError:
        return b""


def _opened(phase: Shared, parcel: Parcel, channel: HybridKey, member: Member) -> HeldShares | None:
    try:
        return open_parcel(phase, parcel, channel, member)
    except PeerError:
        return None


def _check_alive(phase: Masked, alive: Sequence[ClientId], member: Member) -> None:
    in_order("survivors", alive)
    known = {each.dealer for each in phase.held} | set(phase.disputed) | {member.id}
    if unknown := set(alive) - known:
        raise Refusal(f"client {min(unknown)} is listed as alive but never shared its secrets")
    if member.id not in alive:
        raise Refusal("this client is listed as dropped, although it uploaded; its masks stay secret")
    if lost := torn(phase.terms, alive):
        raise Refusal(
            f"client {min(lost)} is listed as alive without all of its group; a sum takes whole groups, since the "
            "difference of two sums would be smaller"
        )
    _enough("are alive", len(alive), phase.terms)


def _reveal(phase: Masked, alive: Sequence[ClientId], state: ClientState) -> tuple[ClientState, Reveal]:
    """Reveal the seed share of each survivor and the mask share of each dropped client: never both of one dealer."""
    shares = tuple(Share(each.dealer, each.seed if each.dealer in alive else each.mask) for each in phase.held)
    return msgspec.structs.replace(state, phase=None), Reveal(phase.seed, shares)


STEPS: Mapping[type[Request], ClientStep] = {
    Invite: advertise,
    Peers: share,
    Delivery: upload,
    Alive: confirm,
    Confirmations: reveal,
}
