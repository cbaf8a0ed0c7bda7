"""Which sums helpers open over the rounds, and what they tell about single clients together.

Clients that train on all their data while a lying server holds the model still send the same update again, and every
sum of survivors is an equation. The guard decides which sums there are; drop-outs make them differ.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from f2ed.core.randomness import stream
from f2ed.estimators import Mean
from f2ed.protocol.helpers import ROLES, HelpersProtocol, Party, Terms, helper_terms
from f2ed.protocol.helpers.guard import fit
from f2ed.protocol.primitives.crypto import digest
from f2ed.protocol.sharding import ClientId

__all__ = ["expected_cosine", "kept_cosines", "survivors"]

Matrix = npt.NDArray[np.float64]
_MOST = 400
"""Clients for which equations are solved; more are scaled down."""


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


def kept_cosines(sums: Sequence[Sequence[ClientId]], clients: int) -> Matrix:
    """Return the cosine of each client's update with its least-squares solution, for updates that are orthogonal.

    Both are taken less the mean of all, which everybody knows. Zero where the sums tell nothing else.
    """
    members = np.zeros((len(sums), clients))
    for row, some in zip(members, sums, strict=True):
        row[list(some)] = 1 / len(some)
    own = np.eye(clients) - 1 / clients
    solved = np.linalg.pinv(members, rcond=1e-6) @ (members @ own)
    lengths = np.linalg.norm(own, axis=1) * np.linalg.norm(solved, axis=1)
    return np.asarray(np.divide((own * solved).sum(axis=1), lengths, out=np.zeros(clients), where=lengths > 1e-9))


def expected_cosine(settings: HelpersProtocol, *, clients: int, rounds: int, away: float, seed: int = 0) -> float:
    """Return what a lying server reaches on average for a client after so many rounds; more clients are scaled down."""
    fewer = min(clients, _MOST)
    terms = helper_terms(
        settings,
        policy=bytes(32),
        job="",
        round_=0,
        members=range(fewer),
        coordinates=1,
        clip_norm=1.0,
        rule=Mean(),
        parties={role: Party(role, digest(role.encode())) for role in ROLES},
    )
    found = list(survivors(terms, rounds, away, seed))
    return float(kept_cosines(found, fewer).mean()) if found else 0.0
