"""Which clients sit again and again in shards that are not believed: suspicion without seeing a client.

Where shards are dealt anew, an attacker takes its shard down with it each time, in ever other company. From who was in
which shard and how much each was believed follows a probability for every client. It is bought with privacy: the
deals that tell attackers apart tell everyone apart (see the leak meter). With fixed shards there is nothing to tell the
members of a shard apart, and all of them share its suspicion.
"""

from collections.abc import Collection, Sequence
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from f2ed.core.errors import ConfigError

__all__ = ["Round", "Suspicion"]

Chance = Annotated[float, Meta(gt=0, lt=1)]
_PASSES = 50


class Round(NamedTuple):
    """The members of each shard that had a say, and its weight."""

    shards: Sequence[Collection[int]]
    weights: Sequence[float]


class Suspicion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The probability of each client to be malicious, by the shards it was in.

    A shard is doubted if it has less than `doubted` times the weight it would have if all were believed alike. How
    often spoilt and clean shards are doubted is estimated along with who spoils them, in turns, from the chances given.
    Shards are taken as independent of each other, which makes probabilities more extreme than they should be; their
    order is what to trust.
    """

    expected: Chance = 0.1
    """The share of clients feared to be malicious."""
    doubted: Chance = 0.5
    caught: Chance = 0.8
    """How often a shard with an attacker is doubted, to begin with."""
    wronged: Chance = 0.1
    """How often one without is."""

    def __call__(self, clients: int, rounds: Sequence[Round]) -> NDArray[np.float64]:
        """Return the probabilities; a client that was in no shard keeps the one expected."""
        members, low = self._observed(clients, rounds)
        caught, wronged = self.caught, self.wronged
        guilty = np.full(clients, self.expected)
        prior = np.log(self.expected / (1 - self.expected))
        for _ in range(_PASSES):
            # The chance that all members are honest, and that all but one are.
            honest = np.log1p(-guilty)
            clean = np.exp(members @ honest)
            score = np.full(clients, prior)
            hit = np.where(low, caught, 1 - caught)
            for row, (where, without) in enumerate(zip(members, clean, strict=True)):
                own = np.flatnonzero(where)
                others = np.minimum(without / (1 - guilty[own]), 1.0)
                miss = wronged if low[row] else 1 - wronged
                score[own] += np.log(hit[row]) - np.log(others * miss + (1 - others) * hit[row])
            new = np.clip(1 / (1 + np.exp(-np.clip(score, -50, 50))), 1e-6, 1 - 1e-6)
            done = float(np.abs(new - guilty).max(initial=0.0)) < 1e-6
            guilty = 0.5 * guilty + 0.5 * new
            spoilt = 1 - np.exp(members @ np.log1p(-guilty))
            caught = _share(low, spoilt, self.caught)
            wronged = min(_share(low, 1 - spoilt, self.wronged), 0.9 * caught)
            if done:
                break
        return guilty

    def _observed(self, clients: int, rounds: Sequence[Round]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        members = np.zeros((sum(len(each.shards) for each in rounds), clients))
        low: list[bool] = []
        for shards, weights in rounds:
            if len(shards) != len(weights):
                raise ConfigError(f"{len(shards)} shards with {len(weights)} weights; give one weight for each shard")
            even = sum(weights) / max(1, len(weights))
            for shard, weight in zip(shards, weights, strict=True):
                members[len(low), list(shard)] = 1
                low.append(weight < self.doubted * even)
        return members, np.array(low, dtype=bool)


def _share(low: NDArray[np.bool_], weight: NDArray[np.float64], before: float) -> float:
    """Return how often shards are doubted, each counted by its weight, drawn towards the value before by ten shards."""
    return float(np.clip((low @ weight + 10 * before) / (weight.sum() + 10), 0.01, 0.99))
