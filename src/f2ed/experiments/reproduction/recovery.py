"""What resharding reveals: how well the server recovers single clients from shard means alone.

Every client has a round-invariant component (the pull of its own data) and noise of the same size. The server sees the
shard means and solves for the clients by least squares. The result is the cosine between its solution and that
component, averaged over the clients: 1 is full recovery.
"""

import numpy as np
from numpy.typing import NDArray

from f2ed.protocol.sharding import EveryKRounds, EveryRound, Fixed, Schedule, assign_shards

__all__ = ["recovery_table"]

CLIENTS, SHARDS, COORDINATES = 100, 25, 400
ROUNDS = (1, 10, 30, 100)


def recovery_table() -> str:
    """Return the cosines by schedule and number of rounds."""
    lines = [f"{'rounds':<19}" + "".join(f"{rounds:>7}" for rounds in ROUNDS)]
    for name, schedule in (
        ("every-round", EveryRound()),
        ("every-k-rounds, 10", EveryKRounds(k=10)),
        ("fixed", Fixed()),
    ):
        lines.append(f"{name:<19}" + "".join(f"{_recovered(schedule, rounds):7.2f}" for rounds in ROUNDS))
    return "\n".join(lines) + "\n"


def _recovered(schedule: Schedule, rounds: int) -> float:
    rng = np.random.default_rng(1)
    invariant = rng.standard_normal((CLIENTS, COORDINATES))
    who, seen = [], []
    for number in range(rounds):
        members = _membership(schedule(number))
        who.append(members)
        seen.append(members @ (invariant + rng.standard_normal(invariant.shape)))
    found = np.linalg.lstsq(np.concatenate(who), np.concatenate(seen), rcond=None)[0]
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(invariant, axis=1)
    return float(np.mean(np.sum(found * invariant, axis=1) / lengths))


def _membership(epoch: int) -> NDArray[np.float64]:
    """Return the [p, n] matrix that turns updates into shard means."""
    plan = assign_shards(dict.fromkeys(range(CLIENTS), b""), shards=SHARDS, epoch=epoch, seed=b"an example")
    members = np.zeros((SHARDS, CLIENTS))
    for row, shard in enumerate(plan.shards):
        members[row, list(shard)] = 1 / len(shard)
    return members
