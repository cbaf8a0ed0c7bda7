"""Single clients from the shard means of many rounds, by least squares (Lam et al., ICML 2021).

Lam et al. had to infer who took part; here the server assigns the shards, or can recompute the assignment, and knows.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from f2ed.guarantees.leakage.exposure import Sums

__all__ = ["Disaggregator", "cosines", "relative_errors"]

Vectors = NDArray[np.float64]


class Disaggregator:
    """Estimates each client's average update from the shard means of many rounds.

    Memory is n x (n + d), independent of the number of rounds. The mean over all clients of a round is subtracted
    first: the server knows it, and it distinguishes no client.
    """

    def __init__(self, clients: int, coordinates: int) -> None:
        self.rounds = 0
        self._company = np.zeros((clients, clients))
        self._moment = np.zeros((clients, coordinates))

    def observe(self, sums: Sums, means: NDArray[np.floating] | Sequence[NDArray[np.floating]]) -> None:
        """Add one round: the members of each opened shard, and the shard's mean."""
        self.rounds += 1
        if not len(sums):
            return
        seen = np.asarray(means, dtype=np.float64)
        sizes = np.array([len(some) for some in sums])
        seen = seen - sizes @ seen / sizes.sum()
        for some, mean in zip(sums, seen, strict=True):
            members = np.fromiter(some, np.int64)
            self._company[np.ix_(members, members)] += 1 / len(members)
            self._moment[members] += mean

    def solve(self, ridge: float = 0.1) -> Vectors:
        """Return each client's round-invariant component, [n, d]; `ridge` is the variance between rounds.

        With a tiny ridge this is the least-squares solution of minimum norm.
        """
        shrunk = self._company + ridge * np.eye(len(self._company))
        return np.asarray(np.linalg.solve(shrunk, self._moment), dtype=np.float64)


def cosines(true: Vectors, found: Vectors) -> Vectors:
    """Return the cosine between the two vectors of each client; 0 where one of them is zero."""
    lengths = np.linalg.norm(true, axis=1) * np.linalg.norm(found, axis=1)
    out: Vectors = np.divide((true * found).sum(axis=1), lengths, out=np.zeros(len(true)), where=lengths > 0)
    return out


def relative_errors(true: Vectors, found: Vectors) -> Vectors:
    """Return the error of each client's found vector, relative to the norm of the true one."""
    out: Vectors = np.linalg.norm(true - found, axis=1) / np.linalg.norm(true, axis=1)
    return out
