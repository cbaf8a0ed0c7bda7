"""The steps that mixer and judge share: open the round, vote on envelopes, sign one set, tell half of the seed."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from f2ed.core.errors import ConfigError, PeerError, Refusal
from f2ed.protocol.helpers.envelope import check_envelope, envelope_digest, open_envelope
from f2ed.protocol.helpers.helper_state import Accepted, HelperState, RoundState
from f2ed.protocol.helpers.keys import PairKeys, check_openings, joint_seed, make_opening, party_key, seed_commitment
from f2ed.protocol.helpers.machine import Helper, StaleStateError, StepInput, end_round
from f2ed.protocol.helpers.messages import Accusation, Envelope, Opening, Revealed, SignedSet, Vote
from f2ed.protocol.helpers.requests import AskOpening, AskReveal, AskSet, AskVote, Request
from f2ed.protocol.helpers.terms import JUDGE, MIXER, ROLES, Role, Terms, bind, check, lasting
from f2ed.protocol.helpers.texts import set_digest, set_text, vote_text
from f2ed.protocol.primitives.crypto import public_key, same, sign, verify
from f2ed.protocol.primitives.hybrid import HybridKey
from f2ed.protocol.sharding import ClientId

__all__ = [
    "agree_on_seed",
    "begun",
    "checked_signature",
    "moved",
    "open_round",
    "other_helper",
    "pair_keys",
    "reveal",
    "sign_set",
    "vote",
]

_LONGEST_REASON = 200


def other_helper(role: Role) -> Role:
    """Return the other helper."""
    return JUDGE if role == MIXER else MIXER


def open_round(state: HelperState, request: Request, helper: Helper, given: StepInput) -> tuple[HelperState, Opening]:
    """Begin a round on terms that the policy allows; the one before is over."""
    assert isinstance(request, AskOpening)  # noqa: S101  the machine chose the step
    terms = request.terms
    _check_terms(terms, helper)
    now = (terms.epoch, terms.round)
    if state.stale:
        raise StaleStateError(
            f"the memory of this {helper.role} is an old copy, as the {other_helper(helper.role)} has shown in an "
            "earlier round; restore the last one, or let the authority name a new helper with a new key"
        )
    if state.mark >= now:
        raise Refusal(
            f"epoch {terms.epoch}, round {terms.round} is not after epoch {state.mark[0]}, round {state.mark[1]}, "
            "which was begun already; a round is never begun twice"
        )
    if state.lasting and state.lasting != lasting(terms):
        raise Refusal("the terms differ from those of an earlier round; under one policy only the round changes")
    context = bind(terms, helper.roster, request.model)
    same_epoch = bool(state.mark) and state.mark[0] == terms.epoch
    unshown = end_round(state).unshown
    opening = make_opening(
        helper.role,
        terms,
        context,
        signing_key=helper.signing_key,
        seed=given.entropy,
        half=given.half,
        seen=state.seen,
    )
    return msgspec.structs.replace(
        state,
        mark=now,
        before=state.mark,
        lasting=lasting(terms),
        kept=state.kept if same_epoch else None,
        struck=state.struck if same_epoch else (),
        unshown=unshown if same_epoch else max(0, unshown - 1),
        round=RoundState(terms=terms, context=context, seed=given.entropy, half=given.half, openings=(opening,)),
    ), opening


def vote(state: HelperState, request: Request, helper: Helper, given: StepInput) -> tuple[HelperState, Vote]:  # noqa: ARG001  the signature of every step
    """Open every envelope, and accuse the clients whose envelopes cannot be used."""
    assert isinstance(request, AskVote)  # noqa: S101
    now = begun(state)
    terms, context = now.terms, now.context
    check_openings(request.openings, terms, context)
    mine, other = (request.openings[ROLES.index(role)] for role in (helper.role, other_helper(helper.role)))
    if mine != now.openings[0]:
        raise Refusal("this helper's own opening was replaced")
    if other.seen > state.before:
        raise StaleStateError(
            f"the {other_helper(helper.role)} has seen this {helper.role} open epoch and round {other.seen}, which its "
            f"state does not know (it ends at {state.before}); the state is an old copy: nothing is answered from it"
        )
    ids = [envelope.client for envelope in request.envelopes]
    _check_ids(ids)
    key, accepted, accused = party_key(now.seed, context, helper.role, terms), [], []
    for envelope in request.envelopes:
        try:
            accepted.append(_accepted(envelope, now, helper, key, state.struck))
        except PeerError as error:
            accused.append(Accusation(envelope.client, str(error)[:_LONGEST_REASON]))
    if len(accused) > terms.accusations:
        raise Refusal(
            f"{len(accused)} envelopes cannot be used, and the terms allow {terms.accusations} accusations; "
            f"client {accused[0].client}: {accused[0].reason}"
        )
    text = vote_text(context, helper.role, request.envelopes, tuple(accused))
    after = moved(state, 1, openings=request.openings, accepted=tuple(accepted))
    return msgspec.structs.replace(after, seen=state.mark), Vote(tuple(accused), sign(helper.signing_key, text))


def sign_set(state: HelperState, request: Request, helper: Helper, given: StepInput) -> tuple[HelperState, SignedSet]:  # noqa: ARG001
    """Sign the set of this round, of accepted clients alone; from here on it does not change."""
    assert isinstance(request, AskSet)  # noqa: S101
    now = begun(state)
    _check_ids(request.clients)
    known = {each.client: each for each in now.accepted}
    if strangers := [client for client in request.clients if client not in known]:
        raise Refusal(f"client {strangers[0]} is in the set, but this {helper.role} has not accepted its envelope")
    if len(request.clients) < now.terms.crowd:
        raise Refusal(f"a set of {len(request.clients)} clients; the policy demands a crowd of {now.terms.crowd}")
    accepted = tuple(known[client] for client in request.clients)
    clients = set_digest(now.context, [(each.client, each.envelope) for each in accepted])
    after = moved(state, 2, accepted=accepted, clients=clients)
    return after, SignedSet(sign(helper.signing_key, set_text(now.context, helper.role, clients)))


def reveal(state: HelperState, request: Request, helper: Helper, given: StepInput) -> tuple[HelperState, Revealed]:  # noqa: ARG001
    """Tell this helper's half of the seed, once the other one signed the same set."""
    assert isinstance(request, AskReveal)  # noqa: S101
    now = begun(state)
    other = other_helper(helper.role)
    checked_signature(now.terms, other, set_text(now.context, other, now.clients), request.other, "set")
    return moved(state, 3), Revealed(now.half)


def agree_on_seed(now: RoundState, helper: Helper, half: bytes) -> bytes:
    """Return the joint seed, or refuse another half than the other helper committed to."""
    other = other_helper(helper.role)
    if not same(seed_commitment(now.context, other, half), now.openings[ROLES.index(other)].commitment):
        raise Refusal(f"the half of the seed is not the one that the {other} committed to")
    return joint_seed(*((now.half, half) if helper.role == MIXER else (half, now.half)))


def begun(state: HelperState) -> RoundState:
    """Return the round that the machine found to be under way."""
    if state.round is None:
        raise Refusal("no round is under way")
    return state.round


def moved(state: HelperState, step: int, **changes: object) -> HelperState:
    """Return the state after a step."""
    return msgspec.structs.replace(state, round=msgspec.structs.replace(begun(state), step=step, **changes))


def pair_keys(now: RoundState, role: Role) -> PairKeys:
    """Return what this helper shares with the other parties for the set."""
    openings = (now.openings[0], now.openings[1], now.openings[2])
    key = party_key(now.seed, now.context, role, now.terms)
    return PairKeys(role, key, openings, context=now.context, clients=now.clients)


def checked_signature(terms: Terms, role: Role, text: bytes, signature: bytes, what: str) -> None:
    """Refuse what a party did not sign."""
    try:
        verify(terms.key_of(role), text, signature)
    except PeerError as error:
        raise Refusal(f"the {what} of the {role} comes with {error}") from None


def _check_terms(terms: Terms, helper: Helper) -> None:
    try:
        check(terms)
        if helper.accept is not None:
            helper.accept(terms)
    except ConfigError as error:
        raise Refusal(f"the terms cannot be accepted: {error}") from None
    place = ROLES.index(helper.role)
    if terms.policy != helper.policy or terms.job != helper.job:
        raise Refusal(f"terms of job {terms.job!r} under another policy or job than this {helper.role} serves")
    if terms.keys[place] != public_key(helper.signing_key) or terms.operators[place] != helper.operator:
        raise Refusal(
            f"the terms name {terms.operators[place]!r} with another key as the {helper.role}; this one is run by "
            f"{helper.operator!r}"
        )


def _accepted(
    envelope: Envelope, now: RoundState, helper: Helper, key: HybridKey, struck: Sequence[ClientId]
) -> Accepted:
    check_envelope(envelope, now.terms, now.context, helper.roster)
    if envelope.client in struck:
        raise PeerError("it has a strike in this epoch")
    seeds = open_envelope(envelope, helper.role, key, now.context)
    return Accepted(envelope.client, envelope_digest(envelope), envelope.row, seeds.mixer, seeds.server)


def _check_ids(ids: Sequence[ClientId]) -> None:
    if any(one >= other for one, other in pairwise(ids)):
        raise Refusal("a list of clients that names one twice or out of order")
