"""The server's side of a round: a generator that yields requests to clients, mixer and judge, and is sent replies.

It ends in a `HelpersOutcome`: a mean, or the reason why there is none. Requests are keyed by a client's id or a
helper's role; the caller of the generator owns the network and the clock.
"""

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.core.errors import PeerError
from f2ed.protocol.helpers import messages as m
from f2ed.protocol.helpers import requests as ask
from f2ed.protocol.helpers.common_steps import checked_signature
from f2ed.protocol.helpers.envelope import check_envelope, envelope_digest, open_envelope, open_row
from f2ed.protocol.helpers.field import packed, unpack
from f2ed.protocol.helpers.guard import admit, check_struck
from f2ed.protocol.helpers.keys import (
    Openings,
    PairKeys,
    check_openings,
    joint_seed,
    make_opening,
    party_key,
    seed_commitment,
)
from f2ed.protocol.helpers.mean import beyond_range, mean_of
from f2ed.protocol.helpers.mixer import rows_step
from f2ed.protocol.helpers.outcome import STRUCK, HelpersOutcome, Progress, ServerTask, no_sum, out_of_range_sum
from f2ed.protocol.helpers.server_rows import ServerRows
from f2ed.protocol.helpers.terms import JUDGE, MIXER, ROLES, SERVER, Role, Terms, bind, check
from f2ed.protocol.helpers.texts import (
    blame_text,
    combined_text,
    set_digest,
    set_text,
    sketches_text,
    strikes_text,
    vote_text,
    weighed_text,
)
from f2ed.protocol.primitives.crypto import same, sign
from f2ed.protocol.primitives.gather import gather
from f2ed.protocol.sharding import ClientId

__all__ = ["HelpedMean", "HelpersOutcome", "ServerTask", "helped_mean"]

_BATCH_BYTES = 1 << 26
HELPERS = (MIXER, JUDGE)

Requests = Mapping[Any, bytes]
"""Bytes by client id or helper role."""
R = TypeVar("R", bound=m.Message)
T = TypeVar("T")
_Talk: TypeAlias = Generator[Requests, Requests, T]


HelpedMean: TypeAlias = _Talk[HelpersOutcome]


def helped_mean(task: ServerTask) -> HelpedMean:
    """Run a round. Terms that cannot be used raise `ConfigError`; whatever others do ends in an outcome."""
    check(task.terms)
    context = bind(task.terms, task.roster, task.model)
    progress = Progress()
    try:
        mean = yield from _round(task, context, progress)
    except PeerError as error:
        return progress.outcome(None, str(error))
    return progress.outcome(mean, None)


def _round(task: ServerTask, context: bytes, progress: Progress) -> _Talk[npt.NDArray[np.float32]]:
    terms = task.terms
    openings = yield from _open(task, context)
    envelopes, seeds = yield from _uploads(task, context, openings, progress)
    clients = yield from _vote(task, context, openings, envelopes, progress)
    digest_ = set_digest(context, [(client, envelope_digest(envelopes[client])) for client in clients])
    halves, joint = yield from _joint_seed(task, context, openings, clients, digest_)
    key = party_key(task.entropy, context, SERVER, terms)
    pairs = PairKeys(SERVER, key, openings, context=context, clients=digest_)
    rows = ServerRows(terms, context, task.rows, {client: seeds[client] for client in clients}, pairs)
    shares = yield from _mixer_shares(task, context, digest_, rows, pairs, halves[JUDGE], joint)
    weighed = yield from _decision(task, context, digest_, rows, shares, halves[MIXER], joint)
    if not weighed.kept:
        yield from _strikes_alone(clients, weighed, progress)
    admit(terms, clients, task.before, weighed.kept)
    check_struck(set(clients) - set(weighed.kept), weighed.struck)
    progress.weighed = weighed
    if task.remember is not None:
        task.remember(weighed.kept, weighed.struck)
    reply = yield from _ask(MIXER, ask.AskMask(weighed), m.MaskedSum, "mask")
    plain = pairs.unseal(MIXER, b"mask", reply.sealed)
    if not same(hashlib.sha256(plain).digest(), weighed.mask):
        raise PeerError("mixer and judge disagree on the mask of the sum; one of them lies")
    total = rows.add_up(weighed.kept, unpack(plain, terms.coordinates))
    if offending := beyond_range(total, len(weighed.kept)):
        progress.blamed = yield from _blame(task, context, digest_, rows, weighed, offending)
        raise PeerError(out_of_range_sum(offending, progress.blamed))
    return mean_of(terms, total, len(weighed.kept))


def _open(task: ServerTask, context: bytes) -> _Talk[Openings]:
    sent = ask.AskOpening(task.terms, task.model)
    found = yield from _ask_both(dict.fromkeys(HELPERS, sent), m.Opening, "opening")
    mine = make_opening(SERVER, task.terms, context, signing_key=task.signing_key, seed=task.entropy)
    openings = (mine, found[MIXER], found[JUDGE])
    check_openings(openings, task.terms, context)
    return openings


def _uploads(
    task: ServerTask, context: bytes, openings: Openings, progress: Progress
) -> _Talk[tuple[dict[ClientId, m.Envelope], dict[ClientId, bytes]]]:
    """Take the uploads of all members but those with a strike; a row goes to the store as it comes."""
    key = party_key(task.entropy, context, SERVER, task.terms)
    seeds: dict[ClientId, bytes] = {}

    def take(client: ClientId, reply: bytes) -> m.Envelope:
        upload = m.read_reply(m.Upload, reply)
        if upload.envelope.client != client:
            raise PeerError(f"an envelope in the name of client {upload.envelope.client}")
        check_envelope(upload.envelope, task.terms, context, task.roster)
        seed = open_envelope(upload.envelope, SERVER, key, context).server
        task.rows.put(client, open_row(upload, key, task.terms, context))
        seeds[client] = seed
        return upload.envelope

    asked = [client for client in task.terms.members if client not in task.struck]
    progress.dropped.update(dict.fromkeys(task.struck, STRUCK))
    sent = m.write(ask.AskUpload(task.terms, openings))
    envelopes = yield from gather("upload", dict.fromkeys(asked, sent), take, progress.dropped)
    _require_crowd(task.terms, envelopes, "uploaded")
    return envelopes, seeds


def _vote(
    task: ServerTask,
    context: bytes,
    openings: Openings,
    envelopes: Mapping[ClientId, m.Envelope],
    progress: Progress,
) -> _Talk[tuple[ClientId, ...]]:
    """Return the clients that neither helper accuses; a helper that accuses too many ends the round."""
    shown = tuple(envelopes.values())
    votes = yield from _ask_both(dict.fromkeys(HELPERS, ask.AskVote(openings, shown)), m.Vote, "vote")
    for role, vote in votes.items():
        text = vote_text(context, role, shown, vote.accused)
        checked_signature(task.terms, role, text, vote.signature, "vote")
        progress.accused[role] = vote.accused
        if len(vote.accused) > task.terms.accusations:
            raise PeerError(
                f"the {role} accuses {len(vote.accused)} clients; the terms allow {task.terms.accusations} in a round"
            )
        for each in vote.accused:
            progress.dropped.setdefault(each.client, f"{role}: {each.reason}")
    clients = tuple(client for client in envelopes if client not in progress.dropped)
    _require_crowd(task.terms, clients, "are accused by nobody")
    progress.clients = clients
    return clients


def _joint_seed(
    task: ServerTask, context: bytes, openings: Openings, clients: tuple[ClientId, ...], digest_: bytes
) -> _Talk[tuple[dict[Role, bytes], bytes]]:
    """Let both helpers sign the set, and then tell their halves of the seed."""
    signed = yield from _ask_both(dict.fromkeys(HELPERS, ask.AskSet(clients)), m.SignedSet, "set")
    for role, each in signed.items():
        checked_signature(task.terms, role, set_text(context, role, digest_), each.signature, "set")
    asks = {MIXER: ask.AskReveal(signed[JUDGE].signature), JUDGE: ask.AskReveal(signed[MIXER].signature)}
    told = yield from _ask_both(asks, m.Revealed, "half of the seed")
    for role, half in told.items():
        if not same(seed_commitment(context, role, half.seed), openings[ROLES.index(role)].commitment):
            raise PeerError(f"the {role} told another half of the seed than it committed to")
    halves = {role: half.seed for role, half in told.items()}
    return halves, joint_seed(halves[MIXER], halves[JUDGE])


def _mixer_shares(
    task: ServerTask, context: bytes, digest_: bytes, rows: ServerRows, pairs: PairKeys, half: bytes, joint: bytes
) -> _Talk[bytes]:
    """Give the mixer the sketches, and the masked rows that it wants to check; return its sealed shares."""
    data = rows.sketch(joint)
    signature = sign(task.signing_key, sketches_text(context, digest_, data))
    sent = ask.AskShares(half, pairs.seal(MIXER, b"sketches", data), signature)
    wanted = (yield from _ask(MIXER, sent, m.RowsWanted, "choice of rows")).clients
    if not set(wanted) <= set(rows.clients) or list(wanted) != sorted(set(wanted)):
        raise PeerError("the mixer wants masked rows that are not in the set, or one of them twice")
    batch = max(1, _BATCH_BYTES // (8 * task.terms.coordinates))
    plain, sealed, encode_into = bytearray(), bytearray(), msgspec.msgpack.Encoder().encode_into
    for number in range(-(-len(wanted) // batch)):
        some = wanted[number * batch : (number + 1) * batch]
        read = tuple((client, packed(task.rows.read(client, 0, task.terms.coordinates))) for client in some)
        encode_into(read, plain)
        pairs.seal_into(sealed, MIXER, rows_step(number), plain)
        rows_sent = m.write(ask.AskRows(memoryview(sealed)))
        found = yield from _talk({MIXER: rows_sent}, lambda _, reply: m.decode(_ROWS_REPLIES, reply), "rows")
        reply = found[MIXER]
        if isinstance(reply, m.Refused):
            raise PeerError(f"the mixer refused the rows: {reply.reason}")
        if isinstance(reply, m.SealedShares):
            return reply.sealed
        if cast("m.RowsWanted", reply).clients != wanted[(number + 1) * batch :]:
            raise PeerError("the mixer wants other masked rows than it chose")
    raise PeerError("the mixer gave no shares after the rows that it wanted")


_ROWS_REPLIES = (m.SealedShares, m.RowsWanted, m.Refused)


def _decision(
    task: ServerTask, context: bytes, digest_: bytes, rows: ServerRows, shares: bytes, half: bytes, joint: bytes
) -> _Talk[m.Weighed]:
    """Give the judge the shares, answer its random combination, and return its decision."""
    terms = task.terms
    combined = yield from _ask(JUDGE, ask.AskGram(half, rows.share(joint), shares), m.Combined, "combination")
    text = combined_text(context, digest_, combined)
    checked_signature(terms, JUDGE, text, combined.signature, "combination")
    mine = rows.combine(unpack(combined.weights, len(rows.clients)))
    other = yield from _ask(MIXER, ask.AskCombination(combined), m.SealedShares, "combined rows")
    weighed = yield from _ask(JUDGE, ask.AskWeights(mine, other.sealed), m.Weighed, "decision")
    checked_signature(terms, JUDGE, weighed_text(context, digest_, weighed), weighed.signature, "decision")
    return weighed


def _strikes_alone(clients: Sequence[ClientId], weighed: m.Weighed, progress: Progress) -> _Talk[None]:
    """Tell the mixer of the strikes in a round in which the judge keeps nobody; it ends without a sum."""
    if not weighed.struck:
        raise PeerError("the judge keeps nobody and gives no strike; it must refuse such a round")
    check_struck(clients, weighed.struck)
    progress.weighed = weighed
    yield from _ask(MIXER, ask.AskMask(weighed), m.MaskedSum, "receipt of strikes")
    raise PeerError(no_sum(weighed.stopped, weighed.struck))


def _blame(
    task: ServerTask,
    context: bytes,
    digest_: bytes,
    rows: ServerRows,
    weighed: m.Weighed,
    offending: Sequence[int],
) -> _Talk[tuple[ClientId, ...]]:
    """Let the judge find who is out of range, and tell the mixer; the round is spent in any case."""
    coordinates = tuple(offending)
    shown = ask.AskShown(coordinates, rows.shown(weighed.kept, offending))
    other = yield from _ask(MIXER, shown, m.ShownValues, "values")
    mine = rows.values(weighed.kept, offending)
    signature = sign(task.signing_key, blame_text(context, digest_, coordinates, mine))
    strikes = yield from _ask(JUDGE, ask.AskBlame(coordinates, mine, other.sealed, signature), m.Strikes, "strikes")
    text = strikes_text(context, digest_, strikes.struck)
    checked_signature(task.terms, JUDGE, text, strikes.signature, "strikes")
    check_struck(weighed.kept, strikes.struck)
    yield from _ask(MIXER, ask.AskStrikes(strikes), m.Strikes, "receipt of strikes")
    return strikes.struck


def _ask(role: Role, request: ask.Request, kind: type[R], what: str) -> _Talk[R]:
    found = yield from _ask_both({role: request}, kind, what)
    return found[role]


def _ask_both(requests: Mapping[Role, ask.Request], kind: type[R], what: str) -> _Talk[dict[Role, R]]:
    written = {role: m.write(request) for role, request in requests.items()}
    return (yield from _talk(written, lambda _, reply: m.read_reply(kind, reply), what))


def _talk(written: Mapping[Role, bytes], take: Callable[[Role, bytes], T], what: str) -> _Talk[dict[Role, T]]:
    """Ask helpers; one that is silent, refuses or breaks the protocol ends the round, by name."""
    failed: dict[Role, str] = {}
    found = yield from gather(what, written, take, failed)
    for role, reason in failed.items():
        raise PeerError(f"the {role} gave no {reason}")
    return found


def _require_crowd(terms: Terms, clients: Sequence[ClientId] | Mapping[ClientId, object], what: str) -> None:
    if len(clients) < terms.crowd:
        raise PeerError(f"{len(clients)} clients {what}; the policy demands a crowd of {terms.crowd}")
