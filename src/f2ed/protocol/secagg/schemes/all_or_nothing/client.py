"""The client's side of all-or-nothing: agree on keys once per epoch, then upload once per round.

    AskKey    -> SignedKey   fresh keys, in the round that asks
    AskWraps  -> Wraps       verify all keys, and send about half of the members a ciphertext
    AskChains -> Ready       open the ciphertexts of the other half: every pair has a chain, the private keys are erased
    AskUpload -> Upload      one mask per pair, from its chain

The chain of a pair moves on by a one-way function in every round, whether or not this client is asked. So both members
are always at the same key, and whoever steals the state finds no key of an earlier round.
"""

from collections.abc import Sequence
from itertools import repeat

from msgspec.structs import replace

from f2ed.core.errors import PeerError, Refusal
from f2ed.protocol.primitives.crypto import digest, ratchet, sign, verify
from f2ed.protocol.primitives.hybrid import HYBRID, KEM_KEY_BYTES, Encapsulated, PrivateKey
from f2ed.protocol.secagg.keys import pair_mask
from f2ed.protocol.secagg.member import Member, StepInput, begin, masked_upload
from f2ed.protocol.secagg.messages import (
    AskChains,
    AskKey,
    AskUpload,
    AskWraps,
    Ready,
    SignedKey,
    Upload,
    Wrap,
    Wraps,
    in_order,
)
from f2ed.protocol.secagg.schemes.all_or_nothing import pairs
from f2ed.protocol.secagg.state import ClientState, EpochKey
from f2ed.protocol.secagg.terms import Terms, bind, bind_epoch
from f2ed.protocol.sharding import ClientId

__all__ = ["begin_chains", "give_key", "upload", "wrap_secrets"]

_LONGEST_STEP = 100_000
"""Chains are moved on by at most so many rounds at once, about a second of work in a shard of ten."""


def give_key(request: AskKey, state: ClientState, member: Member, given: StepInput) -> tuple[ClientState, SignedKey]:
    """Make keys in a round; asked again on the same terms, give the same ones until the agreement is complete."""
    terms = request.terms
    context = bind_epoch(terms, member.roster, terms.round)
    now, key = (terms.epoch, terms.round), state.key
    if state.mark >= now:
        raise Refusal(
            f"the server asked for a key of epoch {terms.epoch}, round {terms.round}; epoch {state.mark[0]}, round "
            f"{state.mark[1]} was begun already, and a round is never begun twice"
        )
    if key is not None and (key.epoch, key.since) >= now and key.context != context:
        raise Refusal(f"this client gave a key in round {key.since} already, on other terms than this request's")
    if key is None or key.context != context or not key.seed:
        key = EpochKey(terms.epoch, terms.round, context, b"", given.entropy, terms.round)
    public = _private(key, terms, given).public
    message = SignedKey(member.id, public.exchange, public.kem, bytes(64))
    message = replace(message, signature=sign(member.signing_key, pairs.key_text(context, message)))
    return replace(state, key=replace(key, public=digest(*public)), phase=None), message


def wrap_secrets(request: AskWraps, state: ClientState, member: Member, given: StepInput) -> tuple[ClientState, Wraps]:
    """Verify the members' keys, once, and make a secret for each member that this client sends one."""
    terms = request.terms
    key = _current(state, terms, member, terms.round)
    if key.keyset:
        raise Refusal(f"the keys of round {key.since} were wrapped already; new ones are made in a later round")
    _check_keys(key, request.keys, terms, member)
    keyset, private = pairs.keyset_digest(request.keys), _private(key, terms, given)
    mine = next(peer for peer in request.keys if peer.client == member.id)
    chains, ciphertexts = dict.fromkeys(terms.members, b""), []
    recipients = pairs.recipients(terms.members, member.id)
    for peer in request.keys:
        if peer.client not in recipients:
            continue
        made = given.encapsulate(peer.kem) if terms.agreement == HYBRID else Encapsulated(b"", b"")
        ciphertexts.append(made.ciphertext)
        chains[peer.client] = pairs.root(
            key.context,
            sender=member.id,
            recipient=peer.client,
            keys=(mine.key, peer.key),
            recipient_kem=peer.kem,
            ciphertext=made.ciphertext,
            exchanged=private.exchange(peer.key),
            encapsulated=made.secret,
        )
    text = pairs.wraps_text(key.context, keyset, member.id, [digest(each) for each in ciphertexts])
    peers = tuple(peer.key for peer in request.keys)
    key = replace(key, keyset=keyset, peers=peers, chains=tuple(chains.values()))
    return replace(state, key=key, phase=None), Wraps(member.id, tuple(ciphertexts), sign(member.signing_key, text))


def begin_chains(
    request: AskChains,
    state: ClientState,
    member: Member,
    given: StepInput,
) -> tuple[ClientState, Ready]:
    """Agree with the members that sent this client a ciphertext, and erase the private keys."""
    terms, wraps = request.terms, request.wraps
    key = _current(state, terms, member, terms.round)
    if not key.keyset or not key.seed:
        raise Refusal("ciphertexts out of order: they come once, after this client has sent its own")
    if tuple(each.client for each in wraps) != pairs.senders(terms.members, member.id):
        raise Refusal("the ciphertexts are not exactly those of the members that send one to this client")
    private, chains = _private(key, terms, given), dict(zip(terms.members, key.chains, strict=True))
    keys, kem = dict(zip(terms.members, key.peers, strict=True)), private.public_kem
    for each in wraps:
        _check_wrap(key, each, terms, member)
        chains[each.client] = pairs.root(
            key.context,
            sender=each.client,
            recipient=member.id,
            keys=(keys[each.client], keys[member.id]),
            recipient_kem=kem,
            ciphertext=each.ciphertext,
            exchanged=private.exchange(keys[each.client]),
            encapsulated=private.decapsulate(each.ciphertext),
        )
    key = replace(key, seed=b"", peers=(), chains=tuple(chains.values()))
    return replace(state, key=key, phase=None), Ready(key.keyset)


def upload(request: AskUpload, state: ClientState, member: Member, given: StepInput) -> tuple[ClientState, Upload]:
    """Upload the update under one mask per pair; the stored chains are then at the next round."""
    terms = request.terms
    state = begin(state, terms)
    context = bind(terms, member.roster, given.model)
    key = _current(state, terms, member, request.since)
    if key.seed or request.keyset != key.keyset:
        raise Refusal(f"the server names other keys of round {key.since} than this client agreed on")
    key = _moved(key, terms.round)
    salt = digest(context, key.keyset)
    masks = [
        pair_mask(salt, chain, member.id, peer)
        for peer, chain in zip(terms.members, key.chains, strict=True)
        if peer != member.id
    ]
    key = _moved(key, terms.round + 1)
    return replace(state, key=key), masked_upload(terms, context, masks, given)


def _private(key: EpochKey, terms: Terms, given: StepInput) -> PrivateKey:
    return given.private_keys(key.seed, salt=key.context, label=b"epoch", kind=terms.agreement)


def _current(state: ClientState, terms: Terms, member: Member, since: int) -> EpochKey:
    """Return the key that is in use, or refuse: it was lost, replaced or made on other terms."""
    key = state.key
    if key is None or key.context != bind_epoch(terms, member.roster, since):
        raise Refusal(
            f"this client holds no keys of epoch {terms.epoch} that were made in round {since} with these members; "
            "ask for new ones"
        )
    return key


def _check_keys(key: EpochKey, peers: Sequence[SignedKey], terms: Terms, member: Member) -> None:
    in_order("keys", [peer.client for peer in peers])
    if tuple(peer.client for peer in peers) != terms.members:
        raise Refusal("the keys are not exactly those of the members")
    if len({peer.key for peer in peers}) != len(peers):
        raise Refusal("two members with equal keys: one impersonates the other")
    size = KEM_KEY_BYTES if terms.agreement == HYBRID else 0
    for peer in peers:
        if len(peer.kem) != size:
            raise Refusal(f"client {peer.client} gave an ML-KEM key of {len(peer.kem)} bytes; it must have {size}")
        if peer.client == member.id:  # It knows its own, and need not verify the signature.
            if digest(peer.key, peer.kem) != key.public:
                raise Refusal("this client's own key was replaced")
            continue
        _check_signature(member, peer.client, pairs.key_text(key.context, peer), peer.signature, "key")


def _check_wrap(key: EpochKey, wrap: Wrap, terms: Terms, member: Member) -> None:
    place = pairs.recipients(terms.members, wrap.client).index(member.id)
    if wrap.digests[place : place + 1] != (digest(wrap.ciphertext),):
        raise Refusal(f"client {wrap.client} signed another ciphertext for this client")
    text = pairs.wraps_text(key.context, key.keyset, wrap.client, wrap.digests)
    _check_signature(member, wrap.client, text, wrap.signature, "ciphertext")


def _check_signature(member: Member, client: ClientId, text: bytes, signature: bytes, what: str) -> None:
    try:
        verify(member.roster[client], text, signature)
    except PeerError as error:
        raise Refusal(f"the {what} of client {client} comes with {error}") from None


def _moved(key: EpochKey, round_: int) -> EpochKey:
    """Move the chains on to a round; there is no way back."""
    steps = round_ - key.round
    if not 0 <= steps <= _LONGEST_STEP:
        raise Refusal(
            f"the chains are at round {key.round}, and round {round_} is before it or more than {_LONGEST_STEP} rounds "
            "after it; ask for new keys"
        )
    chains = key.chains
    for _ in repeat(None, steps):
        chains = tuple(chain and ratchet(chain) for chain in chains)
    return replace(key, round=round_, chains=chains)
