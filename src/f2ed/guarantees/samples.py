"""Client sampling: how many malicious clients a random sample holds."""

from typing import final

import msgspec
import numpy as np

from f2ed.core.errors import ConfigError
from f2ed.guarantees.contamination import hypergeometric

__all__ = ["SamplePlan", "malicious_in_sample", "plan_sample"]

_CHANCE = 0.01
"""Of more malicious clients than assumed, in any of the rounds."""


@final
class SamplePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What sampling costs: a sample may hold more than its share of malicious clients, and is a smaller crowd."""

    clients: int
    malicious: int
    clients_per_round: int
    rounds: int
    expected: float
    """Malicious clients in a sample, on average."""
    assumed: int
    """So many that all rounds together exceed it with a chance of at most 1%."""

    @property
    def share(self) -> float:
        """The share of the rounds in which a client takes part, on average."""
        return self.clients_per_round / self.clients


def plan_sample(*, clients: int, malicious: int, clients_per_round: int, rounds: int = 1) -> SamplePlan:
    """Return what to assume of a random sample in each of so many rounds."""
    if not 1 <= clients_per_round <= clients:
        raise ConfigError(f"{clients_per_round} clients per round of {clients}; draw from 1 to {clients}")
    if not 0 <= malicious <= clients or rounds < 1:
        raise ConfigError(
            f"{malicious} malicious of {clients} clients in {rounds} rounds; use 0 to {clients}, and 1 round or more"
        )
    return SamplePlan(
        clients=clients,
        malicious=malicious,
        clients_per_round=clients_per_round,
        rounds=rounds,
        expected=malicious * clients_per_round / clients,
        assumed=_assumed(clients, malicious, clients_per_round, rounds),
    )


def malicious_in_sample(*, clients: int, malicious: int, clients_per_round: int, rounds: int) -> int:
    """Return a number of malicious clients that no sample of these rounds exceeds, but for a chance of 1%."""
    return plan_sample(clients=clients, malicious=malicious, clients_per_round=clients_per_round, rounds=rounds).assumed


def _assumed(clients: int, malicious: int, clients_per_round: int, rounds: int) -> int:
    """Bound the chance over all rounds by the sum of theirs, since samples of fixed shards are not independent."""
    odds = hypergeometric(clients, malicious, clients_per_round)
    beyond = np.append(np.cumsum(odds.values[::-1])[::-1][1:], 0.0)
    return odds.first + int(np.argmax(beyond * rounds <= _CHANCE))
