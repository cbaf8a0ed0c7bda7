"""The judge: sees the Gram matrix of the updates, verifies it, and signs one set of survivors in a round.

It holds both masks of every client and neither a masked row, the model nor the sum.
"""

import hashlib
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
from f2ed.protocol.helpers.field import Elements, add, element_at, elements, pack, unpack
from f2ed.protocol.helpers.helper_state import Accepted, HelperState, RoundState
from f2ed.protocol.helpers.keys import BLAME, mask_key
from f2ed.protocol.helpers.machine import Answer, Helper, Machine, StepInput, run_step
from f2ed.protocol.helpers.mean import blamed_rows
from f2ed.protocol.helpers.messages import Combined, Strikes, Weighed
from f2ed.protocol.helpers.requests import (
    AskBlame,
    AskGram,
    AskOpening,
    AskReveal,
    AskSet,
    AskVote,
    AskWeights,
    Request,
)
from f2ed.protocol.helpers.shares import (
    combine_rows,
    expanded,
    judge_gram,
    random_row,
    read_copy,
    read_share,
    sketch_of,
    sum_masks,
    tested,
    verified,
)
from f2ed.protocol.helpers.terms import JUDGE, MIXER, SERVER
from f2ed.protocol.helpers.texts import blame_text, combined_text, strikes_text, weighed_text
from f2ed.protocol.helpers.verdict import decide
from f2ed.protocol.primitives.crypto import sign

__all__ = ["MACHINE", "respond_as_judge"]


def take_shares(state: HelperState, request: Request, helper: Helper, given: StepInput) -> tuple[HelperState, Combined]:
    """Add the shares, and draw the random combination that will verify them; it is told only now."""
    assert isinstance(request, AskGram)  # noqa: S101  the machine chose the step
    now = begun(state)
    joint = agree_on_seed(now, helper, request.seed)
    pairs, rows, terms = pair_keys(now, JUDGE), len(now.accepted), now.terms
    server = read_share(pairs.unseal(SERVER, b"shares", request.server), rows + 1, terms.tests)
    mixer = read_share(pairs.unseal(MIXER, b"shares", request.mixer), rows + 1, terms.tests)
    if not np.array_equal(server.tests, mixer.tests):
        raise PeerError("server and mixer give different test values; one of them lies")
    fill = expanded(now.context, [(each.client, [(MIXER, each.mixer), (SERVER, each.server)]) for each in now.accepted])
    sketches = sketch_of(terms, joint).fold(rows, fill)
    row_0 = add(random_row(pairs, MIXER, terms.columns), random_row(pairs, SERVER, terms.columns))
    masks = np.vstack([row_0, sketches])
    matrix = judge_gram(server, mixer, masks)
    weights = elements(given.entropy, rows)
    after = moved(
        state,
        4,
        joint=joint,
        matrix=pack(matrix),
        tests=pack(tested(masks, server.tests, terms, joint)),
        weights=pack(weights),
        combined=pack(combine_rows(weights, masks)),
    )
    text = combined_text(now.context, now.clients, Combined(pack(weights), bytes(64)))
    return after, Combined(pack(weights), sign(helper.signing_key, text))


def weigh(state: HelperState, request: Request, helper: Helper, given: StepInput) -> tuple[HelperState, Weighed]:  # noqa: ARG001
    """Verify the matrix, decide, and sign; a failure ends the round without a decision."""
    assert isinstance(request, AskWeights)  # noqa: S101
    now = begun(state)
    pairs, terms, rows = pair_keys(now, JUDGE), now.terms, len(now.accepted)
    copies = [
        read_copy(pairs.unseal(sender, b"combination", data), terms.columns)
        for sender, data in ((SERVER, request.server), (MIXER, request.mixer))
    ]
    if not all(np.array_equal(one, other) for one, other in zip(*copies, strict=True)):
        raise PeerError("server and mixer combine the masked rows differently; one of them lies")
    matrix, weights = unpack(now.matrix, rows + 1, rows + 1), unpack(now.weights, rows)
    verified(matrix, copies[0].mask, weights, add(copies[0].row, unpack(now.combined, terms.columns)))
    clients = tuple(each.client for each in now.accepted)
    found = decide(terms, clients, matrix[1:, 1:], unpack(now.tests, rows, terms.tests), state.kept)
    kept = set(found.kept)
    seeds = [(each.client, MIXER, each.mixer) for each in now.accepted if each.client in kept]
    mask = hashlib.sha256(pack(sum_masks(now.context, seeds, terms.coordinates))).digest()
    unsigned_ = Weighed(
        found.kept, found.struck, mask, found.eigenvalue, found.iterations, found.stopped[:200], bytes(64)
    )
    signature = sign(helper.signing_key, weighed_text(now.context, now.clients, unsigned_))
    # Where nobody is kept, the round is over: no blame step follows.
    step = 5 if found.kept else 6
    after = moved(state, step, matrix=b"", tests=b"", weights=b"", combined=b"", kept=found.kept)
    struck = tuple(sorted({*state.struck, *found.struck}))
    return (
        msgspec.structs.replace(after, kept=found.kept or state.kept, struck=struck),
        msgspec.structs.replace(unsigned_, signature=signature),
    )


def blame(state: HelperState, request: Request, helper: Helper, given: StepInput) -> tuple[HelperState, Strikes]:  # noqa: ARG001
    """Find whose coordinates are out of range after a sum was; every value is hidden by a smudge. No sum follows."""
    assert isinstance(request, AskBlame)  # noqa: S101
    now = begun(state)
    if any(coordinate >= now.terms.coordinates for coordinate in request.coordinates):
        raise Refusal("coordinates that the update does not have")
    text = blame_text(now.context, now.clients, request.coordinates, request.server)
    checked_signature(now.terms, SERVER, text, request.signature, "blame step")
    pairs = pair_keys(now, JUDGE)
    plain = pairs.unseal(SERVER, BLAME, request.server)
    # Values that the server alone chose would make strikes an oracle for single coordinates of a client.
    if pairs.unseal(MIXER, BLAME, request.mixer) != plain:
        raise PeerError("server and mixer show different values of the masked rows; one of them lies")
    values = unpack(plain, len(now.kept), len(request.coordinates))
    there = set(now.kept)
    masks = np.stack([_at(now, each, request.coordinates) for each in now.accepted if each.client in there])
    struck = tuple(now.kept[row] for row in blamed_rows(add(values, masks)))
    signature = sign(helper.signing_key, strikes_text(now.context, now.clients, struck))
    after = moved(state, 6, accepted=(), seed=b"", half=b"", joint=b"")
    return msgspec.structs.replace(after, struck=tuple(sorted({*state.struck, *struck}))), Strikes(struck, signature)


MACHINE: Machine = {
    AskOpening: open_round,
    AskVote: vote,
    AskSet: sign_set,
    AskReveal: reveal,
    AskGram: take_shares,
    AskWeights: weigh,
    AskBlame: blame,
}


def respond_as_judge(helper: Helper, stored: bytes, request: bytes, *, entropy: bytes, half: bytes) -> Answer:
    """Answer one request as the judge; see `run_step`."""
    return run_step(MACHINE, helper, stored, request, entropy=entropy, half=half)


def _at(now: RoundState, each: Accepted, coordinates: Sequence[int]) -> Elements:
    """Return both masks of a client at some coordinates, added."""
    keys = (
        mask_key(now.context, each.client, role, seed) for role, seed in ((MIXER, each.mixer), (SERVER, each.server))
    )
    one, other = ([element_at(key, coordinate) for coordinate in coordinates] for key in keys)
    return add(np.array(one, np.uint64), np.array(other, np.uint64))
