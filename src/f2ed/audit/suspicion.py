"""Suspicion without seeing a client: which clients are repeatedly in shards that get little weight.

Where clients are resharded, an attacker contaminates a shard of other members each time. The members and the weights of
all shards yield a probability for every client. The price is privacy: the assignments that distinguish attackers
distinguish everyone (see the leak meter). With fixed shards the members of a shard cannot be distinguished, and all of
them share its suspicion.
"""

from collections.abc import Collection, Sequence
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from f2ed.core.errors import ConfigError

__all__ = ["ShardWeights", "Suspicion"]

Probability = Annotated[float, Meta(gt=0, lt=1)]
_PASSES = 50


class ShardWeights(NamedTuple):
    """One round: the members of each opened shard, and the weights the estimator gave them."""

    shards: Sequence[Collection[int]]
    weights: Sequence[float]


class Suspicion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The probability that each client is malicious, given the shards it was in.

    A shard is rejected if its weight is below `threshold` times the average. The rejection rates of contaminated and
    clean shards are estimated together with the malicious clients, in turns, starting from the given rates. Shards are
    treated as independent, which makes probabilities more extreme than they should be; trust their order.
    """

    expected: Probability = 0.1
    """The share of clients assumed to be malicious."""
    threshold: Probability = 0.5
    rejected_contaminated: Probability = 0.8
    """Initial rejection rate of shards with an attacker."""
    rejected_clean: Probability = 0.1
    """Initial rejection rate of shards without."""

    def __call__(self, clients: int, rounds: Sequence[ShardWeights]) -> NDArray[np.float64]:
        """Return the probabilities; a client that was in no shard keeps the expected one."""
        members, low = self._observed(clients, rounds)
        contaminated_rate, clean_rate = self.rejected_contaminated, self.rejected_clean
        guilty = np.full(clients, self.expected)
        prior = np.log(self.expected / (1 - self.expected))
        for _ in range(_PASSES):
            # The probability that all members are honest.
            honest = np.log1p(-guilty)
            clean = np.exp(members @ honest)
            score = np.full(clients, prior)
            hit = np.where(low, contaminated_rate, 1 - contaminated_rate)
            for row, (where, without) in enumerate(zip(members, clean, strict=True)):
                own = np.flatnonzero(where)
                others = np.minimum(without / (1 - guilty[own]), 1.0)
                miss = clean_rate if low[row] else 1 - clean_rate
                score[own] += np.log(hit[row]) - np.log(others * miss + (1 - others) * hit[row])
            new = np.clip(1 / (1 + np.exp(-np.clip(score, -50, 50))), 1e-6, 1 - 1e-6)
            done = float(np.abs(new - guilty).max(initial=0.0)) < 1e-6
            guilty = 0.5 * guilty + 0.5 * new
            contaminated = 1 - np.exp(members @ np.log1p(-guilty))
            contaminated_rate = _rate(low, contaminated, self.rejected_contaminated)
            clean_rate = min(_rate(low, 1 - contaminated, self.rejected_clean), 0.9 * contaminated_rate)
            if done:
                break
        return guilty

    def _observed(self, clients: int, rounds: Sequence[ShardWeights]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        members = np.zeros((sum(len(each.shards) for each in rounds), clients))
        low: list[bool] = []
        for shards, weights in rounds:
            if len(shards) != len(weights):
                raise ConfigError(f"{len(shards)} shards with {len(weights)} weights; give one weight for each shard")
            even = sum(weights) / max(1, len(weights))
            for shard, weight in zip(shards, weights, strict=True):
                members[len(low), list(shard)] = 1
                low.append(weight < self.threshold * even)
        return members, np.array(low, dtype=bool)


def _rate(low: NDArray[np.bool_], weight: NDArray[np.float64], before: float) -> float:
    """Return the weighted rejection rate of shards, with a prior of ten shards at the initial rate."""
    return float(np.clip((low @ weight + 10 * before) / (weight.sum() + 10), 0.01, 0.99))
