"""The mixer: holds one mask of every client, checks the server's sketches, and gives one masked sum in a round."""

from collections.abc import Sequence

import msgspec
import numpy as np

from f2ed.core.errors import PeerError, Refusal
from f2ed.protocol.helpers.common_steps import (
    agree_on_seed,
    begun,
    checked_signature,
    moved,
    open_round,
    pair_keys,
    reveal,
    sign_set,
    vote,
)
from f2ed.protocol.helpers.field import Elements, add, elements, pack, unpack
from f2ed.protocol.helpers.guard import admit, check_struck
from f2ed.protocol.helpers.helper_state import HelperState, RoundState
from f2ed.protocol.helpers.keys import BLAME, SHOWN, sealed_with
from f2ed.protocol.helpers.machine import Answer, Helper, Machine, StepInput, run_step
from f2ed.protocol.helpers.messages import MaskedSum, Message, RowsWanted, SealedShares, ShownValues, Strikes
from f2ed.protocol.helpers.requests import (
    AskCombination,
    AskMask,
    AskOpening,
    AskReveal,
    AskRows,
    AskSet,
    AskShares,
    AskShown,
    AskStrikes,
    AskVote,
    Request,
)
from f2ed.protocol.helpers.row_chunks import read_shown, row_digest, shown_values
from f2ed.protocol.helpers.shares import (
    Copy,
    combine_rows,
    combined_mask,
    expanded,
    mixer_share,
    random_row,
    sketch_of,
    smudge,
    sum_masks,
    write_copy,
    write_share,
)
from f2ed.protocol.helpers.terms import JUDGE, MIXER, SERVER
from f2ed.protocol.helpers.texts import combined_text, sketches_text, strikes_text, weighed_text
from f2ed.protocol.primitives.crypto import same, seal, unseal
from f2ed.protocol.sharding import ClientId

__all__ = ["MACHINE", "given_mask", "respond_as_mixer", "rows_step"]


def take_sketches(
    state: HelperState, request: Request, helper: Helper, given: StepInput
) -> tuple[HelperState, RowsWanted]:
    """Keep the sketches that the server signed, and choose the rows to check them by."""
    assert isinstance(request, AskShares)  # noqa: S101  the machine chose the step
    now = begun(state)
    joint = agree_on_seed(now, helper, request.seed)
    data = pair_keys(now, MIXER).unseal(SERVER, b"sketches", request.sealed)
    checked_signature(now.terms, SERVER, sketches_text(now.context, now.clients, data), request.signature, "sketches")
    unpack(data, len(now.accepted), now.terms.columns)
    wanted = _chosen(now, given.entropy, state.unshown)
    return moved(state, 4, joint=joint, masked=data, wanted=wanted), RowsWanted(wanted)


def take_rows(state: HelperState, request: Request, helper: Helper, given: StepInput) -> tuple[HelperState, Message]:  # noqa: ARG001
    """Check masked rows against their envelopes and sketches; after the last one, give the shares."""
    assert isinstance(request, AskRows)  # noqa: S101
    now = begun(state)
    plain = pair_keys(now, MIXER).unseal(SERVER, rows_step(now.batches), request.sealed)
    rows = _read_rows(plain)
    if not rows or tuple(client for client, _ in rows) != now.wanted[: len(rows)]:
        raise Refusal("the masked rows are not the ones that this mixer wants to check next")
    _check_rows(now, rows)
    left = now.wanted[len(rows) :]
    if left:
        return moved(state, 4, wanted=left, batches=now.batches + 1), RowsWanted(left)
    return moved(state, 5, wanted=(), batches=now.batches + 1), SealedShares(_shares(now))


def combine(state: HelperState, request: Request, helper: Helper, given: StepInput) -> tuple[HelperState, SealedShares]:  # noqa: ARG001
    """Combine the masked rows as the judge drew it, for one combination alone."""
    assert isinstance(request, AskCombination)  # noqa: S101
    now = begun(state)
    text = combined_text(now.context, now.clients, request.combined)
    checked_signature(now.terms, JUDGE, text, request.combined.signature, "combination")
    weights = unpack(request.combined.weights, len(now.accepted))
    pairs = pair_keys(now, MIXER)
    row = combine_rows(weights, _with_row_0(now))
    copy = Copy(row, combined_mask(weights, pairs, SERVER))
    sealed = pairs.seal(JUDGE, b"combination", write_copy(copy))
    # The sketches have served.
    return moved(state, 6, masked=b""), SealedShares(sealed)


def give_mask(state: HelperState, request: Request, helper: Helper, given: StepInput) -> tuple[HelperState, MaskedSum]:  # noqa: ARG001
    """Give the sum of the survivors' masks, if the judge signed them and the guard allows it; then erase the seeds."""
    assert isinstance(request, AskMask)  # noqa: S101
    now, weighed = begun(state), request.weighed
    checked_signature(now.terms, JUDGE, weighed_text(now.context, now.clients, weighed), weighed.signature, "decision")
    clients = [each.client for each in now.accepted]
    if not weighed.kept and weighed.struck:
        return _without_sum(state, clients, weighed.struck), MaskedSum(b"")
    admit(now.terms, clients, state.kept, weighed.kept)
    there = set(weighed.kept)
    check_struck(set(clients) - there, weighed.struck)
    seeds = [(each.client, MIXER, each.mixer) for each in now.accepted if each.client in there]
    total = pack(sum_masks(now.context, seeds, now.terms.coordinates))
    pairs = pair_keys(now, MIXER)
    sealed = pairs.seal(SERVER, b"mask", total)
    rows = tuple(msgspec.structs.replace(each, mixer=b"") for each in now.accepted if each.client in there)
    after = moved(state, 7, seed=b"", half=b"", joint=b"", accepted=rows, kept=weighed.kept, blame=pairs.for_blame())
    struck = tuple(sorted({*state.struck, *weighed.struck}))
    return msgspec.structs.replace(after, kept=weighed.kept, struck=struck), MaskedSum(sealed)


def given_mask(before: RoundState, reply: MaskedSum) -> bytes:
    """Return the sum that the mixer gave, as bytes, from the round before it erased its keys."""
    return pair_keys(before, MIXER).reopen(SERVER, b"mask", reply.sealed)


def _without_sum(state: HelperState, clients: Sequence[ClientId], struck: Sequence[ClientId]) -> HelperState:
    """Remember strikes in a round in which the judge keeps nobody; nothing follows."""
    check_struck(clients, struck)
    after = moved(state, 9, seed=b"", half=b"", joint=b"", accepted=())
    return msgspec.structs.replace(after, struck=tuple(sorted({*state.struck, *struck})))


def show_values(state: HelperState, request: Request, helper: Helper, given: StepInput) -> tuple[HelperState, Message]:  # noqa: ARG001
    """Check parts of masked rows against their envelopes, and show the judge values of some coordinates, smudged."""
    assert isinstance(request, AskShown)  # noqa: S101
    now = begun(state)
    if any(coordinate >= now.terms.coordinates for coordinate in request.coordinates):
        raise Refusal("coordinates that the update does not have")
    smudge_key, shown_key, judge_key = now.blame
    plain = _opened(shown_key, request.sealed, sealed_with(now.context, now.clients, SHOWN, SERVER, MIXER))
    digests = {each.client: each.row for each in now.accepted}
    values = shown_values(read_shown(plain), digests, request.coordinates, now.terms.coordinates)
    hidden = pack(add(values, smudge(smudge_key, values.shape)))
    bound = sealed_with(now.context, now.clients, BLAME, MIXER, JUDGE)
    return moved(state, 8, accepted=(), blame=()), ShownValues(seal(judge_key, hidden, associated=bound))


def _opened(key: bytes, sealed: bytes, associated: bytes) -> bytes:
    try:
        return unseal(key, sealed, associated=associated)
    except (PeerError, ValueError):
        raise PeerError("what the server showed does not open: corrupted, or not from it") from None


def take_strikes(state: HelperState, request: Request, helper: Helper, given: StepInput) -> tuple[HelperState, Strikes]:  # noqa: ARG001
    """Remember the strikes of a blame step."""
    assert isinstance(request, AskStrikes)  # noqa: S101
    now, strikes = begun(state), request.strikes
    checked_signature(
        now.terms, JUDGE, strikes_text(now.context, now.clients, strikes.struck), strikes.signature, "strikes"
    )
    check_struck(now.kept, strikes.struck)
    after = moved(state, 9)
    return msgspec.structs.replace(after, struck=tuple(sorted({*state.struck, *strikes.struck}))), strikes


MACHINE: Machine = {
    AskOpening: open_round,
    AskVote: vote,
    AskSet: sign_set,
    AskReveal: reveal,
    AskShares: take_sketches,
    AskRows: take_rows,
    AskCombination: combine,
    AskMask: give_mask,
    AskShown: show_values,
    AskStrikes: take_strikes,
}


def respond_as_mixer(helper: Helper, stored: bytes, request: bytes, *, entropy: bytes, half: bytes) -> Answer:
    """Answer one request as the mixer; see `run_step`."""
    return run_step(MACHINE, helper, stored, request, entropy=entropy, half=half)


def rows_step(batch: int) -> bytes:
    """Return the name of the step that carries a batch of masked rows."""
    return b"rows %d" % batch


def _chosen(now: RoundState, entropy: bytes, unshown: int) -> tuple[ClientId, ...]:
    """Return the rows to check, at random: as many as the terms say, or all of them.

    Twice as many for each time that the server did not show them: one that altered sketches, and falls silent when
    their rows are chosen, would otherwise repeat that until they are not, and leave no evidence.
    """
    clients = [each.client for each in now.accepted]
    if (count := min(now.terms.checked_rows << min(unshown, 32), len(clients))) == len(clients):
        return tuple(clients)
    order = np.argsort(elements(entropy, len(clients)), kind="stable")
    return tuple(sorted(clients[place] for place in order[:count]))


def _read_rows(plain: bytes) -> tuple[tuple[ClientId, memoryview], ...]:
    try:
        return msgspec.msgpack.decode(plain, type=tuple[tuple[int, memoryview], ...])
    except msgspec.DecodeError as error:
        raise PeerError(f"masked rows that cannot be read: {error}") from None


def _check_rows(now: RoundState, rows: tuple[tuple[ClientId, memoryview], ...]) -> None:
    places = {each.client: place for place, each in enumerate(now.accepted)}
    for client, row in rows:
        if not same(row_digest(row), now.accepted[places[client]].row):
            raise Refusal(f"the masked row of client {client} is not the one in its envelope; the server altered it")
    words = [unpack(row, now.terms.coordinates) for _, row in rows]

    def fill(some: slice, columns: slice, out: Elements) -> None:
        for place, row in enumerate(range(some.start, some.stop)):
            out[place] = words[row][columns]

    found = sketch_of(now.terms, now.joint).fold(len(rows), fill)
    masked = unpack(now.masked, len(now.accepted), now.terms.columns)
    for (client, _), sketch in zip(rows, found, strict=True):
        if not np.array_equal(sketch, masked[places[client]]):
            raise Refusal(
                f"the sketch of client {client} is not that of its masked row; the server's signature on it is evidence"
            )


def _with_row_0(now: RoundState) -> Elements:
    pairs = pair_keys(now, MIXER)
    masked = unpack(now.masked, len(now.accepted), now.terms.columns)
    return np.vstack([random_row(pairs, SERVER, now.terms.columns), masked])


def _shares(now: RoundState) -> bytes:
    pairs = pair_keys(now, MIXER)
    fill = expanded(now.context, [(each.client, [(MIXER, each.mixer)]) for each in now.accepted])
    sketches = sketch_of(now.terms, now.joint).fold(len(now.accepted), fill)
    mask = np.vstack([random_row(pairs, JUDGE, now.terms.columns), sketches])
    share = mixer_share(_with_row_0(now), mask, now.terms, pairs, now.joint)
    return pairs.seal(JUDGE, b"shares", write_share(share))
