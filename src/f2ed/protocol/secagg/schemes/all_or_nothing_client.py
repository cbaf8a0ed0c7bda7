"""The client's side of `all-or-nothing`: one key per epoch, one message per round, no shares that could be revealed.

A missing member leaves the sum closed for good, which is why lies about drop-outs, split views and differences
of sums gain nothing.
"""

from collections.abc import Sequence

import msgspec

from f2ed.core.errors import PeerError, Refusal
from f2ed.protocol.primitives.crypto import agreement, derive, digest, exchange_key, sign, verify
from f2ed.protocol.primitives.fields import unsigned
from f2ed.protocol.secagg import keys
from f2ed.protocol.secagg.member import Local, Member, accept, begin, masked_upload
from f2ed.protocol.secagg.messages import AskKey, AskUpload, SignedKey, Upload, in_order
from f2ed.protocol.secagg.state import EpochKey, State
from f2ed.protocol.secagg.terms import Terms, bind, bind_epoch

__all__ = ["give_key", "upload"]


def give_key(request: AskKey, state: State, member: Member, local: Local) -> tuple[State, SignedKey]:
    """Make the epoch's key, once; asked again on the same terms, give the same key again."""
    terms = request.terms
    _expect_mode(terms, "all-or-nothing")
    accept(member, terms)
    context = bind_epoch(terms, member.roster)
    if state.mark and terms.epoch < state.mark[0]:
        raise Refusal(f"a key for epoch {terms.epoch} was asked for; epoch {state.mark[0]} has begun")
    key = state.key
    if key is None or key.epoch < terms.epoch:
        key = EpochKey(terms.epoch, context, derive(local.entropy, salt=context, info=b"epoch key"))
    elif key.context != context:
        raise Refusal(f"a key was given for epoch {key.epoch} already, and not on the terms of this request")
    return msgspec.structs.replace(state, key=key, phase=None), _signed(member, key)


def upload(request: AskUpload, state: State, member: Member, local: Local) -> tuple[State, Upload]:
    """Upload the update under one mask per pair."""
    terms = request.terms
    accept(member, terms)
    state = begin(state, terms)
    context = bind(terms, member.roster, local.model)
    if terms.mode == "clear":
        return state, masked_upload(terms, context, [], local)
    _expect_mode(terms, "all-or-nothing")
    key = state.key
    if key is None or key.context != bind_epoch(terms, member.roster):
        raise Refusal(f"no key was made for epoch {terms.epoch} with these members; ask for it first")
    key = _verified(key, request.keys, terms, member)
    masks = [
        keys.pair_mask(context, agreed, member.id, peer)
        for peer, agreed in zip(terms.members, key.agreed, strict=True)
        if peer != member.id
    ]
    return msgspec.structs.replace(state, key=key), masked_upload(terms, context, masks, local)


def _expect_mode(terms: Terms, mode: str) -> None:
    if terms.mode != mode:
        raise Refusal(f"terms of mode {terms.mode!r} came with a request of mode {mode!r}")


def _signed(member: Member, key: EpochKey) -> SignedKey:
    message = SignedKey(member.id, exchange_key(key.private), bytes(64))
    return msgspec.structs.replace(message, signature=sign(member.signing_key, keys.epoch_key(key.context, message)))


def _verified(key: EpochKey, peers: Sequence[SignedKey], terms: Terms, member: Member) -> EpochKey:
    """Verify the members' keys and agree with each, unless they are the ones that were verified last."""
    seen = digest(*(part for peer in peers for part in (unsigned(peer.client), peer.key)))
    if key.agreed and key.peers == seen:
        return key
    _check_keys(key, peers, terms, member)
    agree = agreement(key.private)
    agreed = tuple(b"" if peer.client == member.id else agree(peer.key) for peer in peers)
    return msgspec.structs.replace(key, peers=seen, agreed=agreed)


def _check_keys(key: EpochKey, peers: Sequence[SignedKey], terms: Terms, member: Member) -> None:
    in_order("keys", [peer.client for peer in peers])
    if tuple(peer.client for peer in peers) != terms.members:
        raise Refusal("the keys are not exactly those of the members")
    if len({peer.key for peer in peers}) != len(peers):
        raise Refusal("two members with equal keys: one stands in for the other")
    for peer in peers:
        if peer.client == member.id and peer.key != exchange_key(key.private):
            raise Refusal("this client's own key was replaced")
        try:
            verify(member.roster[peer.client], keys.epoch_key(key.context, peer), peer.signature)
        except PeerError as error:
            raise Refusal(f"the key of client {peer.client} comes with {error}") from None
