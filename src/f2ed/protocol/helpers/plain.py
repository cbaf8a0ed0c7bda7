"""The same round in the clear: the same Gram matrix, survivors and mean from plain integers, and no secrecy."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import PeerError
from f2ed.protocol.helpers.field import Elements, from_integers, gram, reduce, small_product
from f2ed.protocol.helpers.keys import joint_seed
from f2ed.protocol.helpers.mean import beyond_range, blamed_rows, mean_of
from f2ed.protocol.helpers.outcome import STRUCK, HelpersOutcome, no_sum, out_of_range_sum
from f2ed.protocol.helpers.shares import sketch_of
from f2ed.protocol.helpers.sketch import ternary
from f2ed.protocol.helpers.terms import Terms, check
from f2ed.protocol.helpers.verdict import decide
from f2ed.protocol.sharding import ClientId

__all__ = ["plain_gram", "plain_mean"]

Numbers = npt.NDArray[np.int64]


def plain_mean(
    terms: Terms,
    numbers: Mapping[ClientId, Numbers],
    *,
    halves: tuple[bytes, bytes],
    before: Sequence[ClientId] | None = None,
    struck: Sequence[ClientId] = (),
) -> HelpersOutcome:
    """Return the outcome of a round from encoded updates; `halves` are the mixer's and the judge's of the seed.

    A blame step has no smudge here. It decides the same but for coordinates between 2^27 and 2^28 steps.
    """
    check(terms)
    dropped = dict.fromkeys(struck, STRUCK)
    dropped |= {client: "upload: no reply" for client in terms.members if client not in {*numbers, *struck}}
    dropped = dict(sorted(dropped.items()))
    clients = tuple(sorted(set(numbers) - set(struck)))
    if len(clients) < terms.crowd:
        why = f"{len(clients)} clients uploaded; the policy demands a crowd of {terms.crowd}"
        return HelpersOutcome(dropped=dropped, aborted=why)
    rows = [numbers[client] for client in clients]
    joint = joint_seed(*halves)
    sketches = _sketches(terms, rows, joint)
    tests = small_product(sketches, ternary(joint, terms.tests, terms.columns))
    try:
        found = decide(terms, clients, gram(sketches), tests, before)
    except PeerError as error:
        return HelpersOutcome(clients=clients, dropped=dropped, aborted=f"the judge gave no decision: {error}")
    total = np.zeros(terms.coordinates, np.uint64)
    for client in found.kept:
        total = reduce(total + from_integers(numbers[client]))
    mean, aborted = None, None
    blamed: tuple[ClientId, ...] = ()
    if not found.kept:
        aborted = no_sum(found.stopped, found.struck)
    elif offending := beyond_range(total, len(found.kept)):
        shown = np.stack([from_integers(numbers[client][list(offending)]) for client in found.kept])
        blamed = tuple(found.kept[row] for row in blamed_rows(shown))
        aborted = out_of_range_sum(offending, blamed)
    else:
        try:
            mean = mean_of(terms, total, len(found.kept))
        except PeerError as error:
            aborted = str(error)
    return HelpersOutcome(
        mean=mean,
        clients=clients,
        kept=found.kept,
        struck=tuple(sorted({*found.struck, *blamed})),
        dropped=dropped,
        aborted=aborted,
        eigenvalue=found.eigenvalue,
        iterations=found.iterations,
        stopped=found.stopped,
    )


def plain_gram(terms: Terms, rows: Sequence[Numbers], joint: bytes) -> Elements:
    """Return the sketched Gram matrix of encoded updates."""
    return gram(_sketches(terms, rows, joint))


def _sketches(terms: Terms, rows: Sequence[Numbers], joint: bytes) -> Elements:
    def fill(some: slice, columns: slice, out: Elements) -> None:
        for place, row in enumerate(range(some.start, some.stop)):
            out[place] = from_integers(rows[row][columns])

    return sketch_of(terms, joint).fold(len(rows), fill)
