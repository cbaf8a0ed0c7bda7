"""Single clients from the shard means of many rounds: least squares over who was in which shard.

Lam et al. (ICML 2021) had to guess who took part; here the server deals the shards, or recomputes the deal, and knows.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from f2ed.guarantees.leakage.exposure import Sums

__all__ = ["Disaggregator", "cosines", "relative_errors"]

Vectors = NDArray[np.float64]


class Disaggregator:
    """Takes in rounds of shard means and says what each client's update most likely is, on average over the rounds.

    Memory is n x (n + d), whatever the number of rounds. What all clients have in common in a round is taken out
    first: it says nothing about any of them, and the server knows it.
    """

    def __init__(self, clients: int, coordinates: int) -> None:
        self.rounds = 0
        self._company = np.zeros((clients, clients))
        self._moment = np.zeros((clients, coordinates))

    def observe(self, sums: Sums, means: NDArray[np.floating] | Sequence[NDArray[np.floating]]) -> None:
        """Take in one round: the members of each opened shard, and the shard's mean."""
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
        """Return each client's part, [n, d]; `ridge` is the variance of what changes from round to round.

        With a tiny ridge this is least squares of smallest norm.
        """
        shrunk = self._company + ridge * np.eye(len(self._company))
        return np.asarray(np.linalg.solve(shrunk, self._moment), dtype=np.float64)


def cosines(true: Vectors, found: Vectors) -> Vectors:
    """Return the cosine between the two vectors of each client; 0 where one of them is zero."""
    lengths = np.linalg.norm(true, axis=1) * np.linalg.norm(found, axis=1)
    out: Vectors = np.divide((true * found).sum(axis=1), lengths, out=np.zeros(len(true)), where=lengths > 0)
    return out


def relative_errors(true: Vectors, found: Vectors) -> Vectors:
    """Return how far the found vector of each client is off, as a part of the true one's length."""
    out: Vectors = np.linalg.norm(true - found, axis=1) / np.linalg.norm(true, axis=1)
    return out
