"""Single clients from the sums of many rounds, if a lying server holds the model still.

Clients that train on all their data then send the same update again, and every sum of survivors is an equation. The
guard decides which sums there are; drop-outs and rejected clients make them differ.
"""

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from f2ed.audit.coalitions.cohort import Vectors
from f2ed.audit.disaggregation import cosines
from f2ed.core.randomness import stream
from f2ed.protocol.helpers import HelpersProtocol, Terms
from f2ed.protocol.helpers.guard import fit
from f2ed.protocol.helpers.settings import fixed_groups
from f2ed.protocol.sharding import ClientId

__all__ = ["cosines_from_sums", "survivors", "with_guard"]


def with_guard(terms: Terms, settings: HelpersProtocol) -> Terms:
    """Return the terms with the guard of these settings."""
    nested = settings.guard == "nested"
    groups = () if nested else fixed_groups(terms.members, settings.size)
    return replace(terms, groups=groups, step=settings.size if nested else 0, epoch_rounds=settings.epoch)


def survivors(terms: Terms, rounds: int, away: float, seed: int) -> Iterator[tuple[ClientId, ...]]:
    """Yield who is summed in each round, if each client is away with this chance and the rule keeps all others."""
    before: tuple[ClientId, ...] | None = None
    for round_ in range(rounds):
        if round_ % terms.epoch_rounds == 0:
            before = None
        there = stream(seed, "audit", "away", round_).random(len(terms.members)) >= away
        wanted = {client: 1.0 for client, here in zip(terms.members, there, strict=True) if here}
        kept = fit(terms, before, wanted)
        if len(kept) >= terms.crowd:
            before = kept
            yield kept


def cosines_from_sums(sums: list[tuple[ClientId, ...]], updates: Vectors) -> Vectors:
    """Return the cosine of each client's update with its least-squares solution, both less the mean of all."""
    own = updates - updates.mean(axis=0)
    members: NDArray[np.float64] = np.zeros((len(sums), len(own)))
    for row, some in zip(members, sums, strict=True):
        row[list(some)] = 1 / len(some)
    return cosines(own, np.linalg.pinv(members, rcond=1e-6) @ (members @ own))
