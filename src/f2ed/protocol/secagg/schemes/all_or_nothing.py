"""All-or-nothing: one key per epoch, one message per round, no shares that could be revealed.

A missing member leaves the sum closed for good, which is why lies about dropouts, split views and differences
of sums gain nothing.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, final

import msgspec

from f2ed.core.errors import PeerError, Refusal
from f2ed.protocol.primitives.crypto import (
    agreement,
    check_exchange_key,
    derive,
    digest,
    public_exchange_key,
    sign,
    verify,
)
from f2ed.protocol.primitives.fields import unsigned
from f2ed.protocol.secagg.gather import Adder, gather, name_some
from f2ed.protocol.secagg.keys import epoch_key_text, pair_mask
from f2ed.protocol.secagg.member import Member, StepInput, begin, masked_upload
from f2ed.protocol.secagg.messages import AskKey, AskUpload, Request, SignedKey, Upload, in_order, read_reply, write
from f2ed.protocol.secagg.schemes.base import ClientStep, KeyAgreement, Quorum, Scheme, ShardRound, Summation
from f2ed.protocol.secagg.state import ClientState, EpochKey
from f2ed.protocol.secagg.terms import Terms, bind, bind_epoch
from f2ed.protocol.sharding import ClientId

__all__ = ["AllOrNothing"]


def give_key(request: AskKey, state: ClientState, member: Member, given: StepInput) -> tuple[ClientState, SignedKey]:
    """Make the epoch's key, once; asked again on the same terms, give the same key again."""
    terms = request.terms
    context = bind_epoch(terms, member.roster)
    if state.mark and terms.epoch < state.mark[0]:
        raise Refusal(f"the server asked for a key of epoch {terms.epoch}; epoch {state.mark[0]} has begun")
    key = state.key
    if key is None or key.epoch < terms.epoch:
        key = EpochKey(terms.epoch, context, derive(given.entropy, salt=context, info=b"epoch key"))
    elif key.context != context:
        raise Refusal(f"this client gave a key for epoch {key.epoch} already, on other terms than this request's")
    return msgspec.structs.replace(state, key=key, phase=None), _signed(member, key)


def upload(request: AskUpload, state: ClientState, member: Member, given: StepInput) -> tuple[ClientState, Upload]:
    """Upload the update under one mask per pair."""
    terms = request.terms
    state = begin(state, terms)
    context = bind(terms, member.roster, given.model)
    key = state.key
    if key is None or key.context != bind_epoch(terms, member.roster):
        raise Refusal(f"no key was made for epoch {terms.epoch} with these members; ask for it first")
    key = _verified(key, request.keys, terms, member)
    masks = [
        pair_mask(context, agreed, member.id, peer)
        for peer, agreed in zip(terms.members, key.agreed, strict=True)
        if peer != member.id
    ]
    return msgspec.structs.replace(state, key=key), masked_upload(terms, context, masks, given)


@final
class AllOrNothing(Scheme):
    """Opens the sum of all members or none."""

    mode: ClassVar[Literal["all-or-nothing"]] = "all-or-nothing"
    keeps_keys: ClassVar[bool] = True
    steps: ClassVar[Mapping[type[Request], ClientStep]] = {AskKey: give_key, AskUpload: upload}

    def quorum(self, members: int, colluders: int = 0) -> Quorum:  # noqa: ARG002  it takes all of them anyway
        """Return all members."""
        return Quorum(members, members)

    def agree_on_keys(
        self, terms: Terms, roster: Mapping[ClientId, bytes], dropped: dict[ClientId, str]
    ) -> KeyAgreement:
        """Ask every member for its key of the epoch; all must give one."""
        context = bind_epoch(terms, roster)
        seen: set[bytes] = set()

        def take(client: ClientId, reply: bytes) -> SignedKey:
            message = read_reply(SignedKey, reply)
            if message.client != client:
                raise PeerError(f"a key in the name of client {message.client}")
            verify(roster[client], epoch_key_text(context, message), message.signature)
            check_exchange_key(message.key)
            if message.key in seen:
                raise PeerError("the same key as another member")
            seen.add(message.key)
            return message

        ask = write(AskKey(terms))
        given = yield from gather("key", dict.fromkeys(terms.members, ask), take, dropped)
        _require_all("gave no usable key", terms, given)
        return tuple(given.values())

    def add(self, shard: ShardRound) -> Summation:
        """Add the uploads: only those of all members together have masks that cancel."""
        adder = Adder(shard.terms, shard.context)
        ask = write(AskUpload(shard.terms, shard.keys))
        uploaded = yield from gather("upload", dict.fromkeys(shard.terms.members, ask), adder.take, shard.dropped)
        _require_all("uploaded nothing usable", shard.terms, uploaded)
        return tuple(uploaded), adder.total


def _signed(member: Member, key: EpochKey) -> SignedKey:
    message = SignedKey(member.id, public_exchange_key(key.private), bytes(64))
    return msgspec.structs.replace(message, signature=sign(member.signing_key, epoch_key_text(key.context, message)))


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
        raise Refusal("two members with equal keys: one impersonates the other")
    for peer in peers:
        if peer.client == member.id and peer.key != public_exchange_key(key.private):
            raise Refusal("this client's own key was replaced")
        try:
            verify(member.roster[peer.client], epoch_key_text(key.context, peer), peer.signature)
        except PeerError as error:
            raise Refusal(f"the key of client {peer.client} comes with {error}") from None


def _require_all(what: str, terms: Terms, clients: Mapping[ClientId, object]) -> None:
    if missing := set(terms.members) - clients.keys():
        raise PeerError(
            f"{len(missing)} of {len(terms.members)} members {what} (client {name_some(missing)}); "
            f"in {AllOrNothing.mode} mode the sum stays closed"
        )
