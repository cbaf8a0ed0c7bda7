"""What re-dealing costs: how well the server finds the single client from shard means alone.

Every client has a part that stays the same over the rounds (what its own data pulls towards) and noise of the
same size. The server sees the shard means and solves for the clients by least squares. Printed is the cosine
between what it finds and the part that stays, averaged over the clients: 1 is full recovery.

    python docs/scripts/redeal.py
"""

import sys

import numpy as np

from f2ed.protocol.sharding import EveryKRounds, EveryRound, Fixed, Schedule, assign_shards

CLIENTS, SHARDS, COORDINATES = 100, 25, 400
ROUNDS = (1, 10, 30, 100)


def main() -> None:
    """Print the table."""
    lines = [f"{'rounds':<19}" + "".join(f"{rounds:>7}" for rounds in ROUNDS)]
    for name, schedule in (
        ("every-round", EveryRound()),
        ("every-k-rounds, 10", EveryKRounds(k=10)),
        ("fixed", Fixed()),
    ):
        lines.append(f"{name:<19}" + "".join(f"{_recovered(schedule, rounds):7.2f}" for rounds in ROUNDS))
    sys.stdout.write("\n".join(lines) + "\n")


def _recovered(schedule: Schedule, rounds: int) -> float:
    rng = np.random.default_rng(1)
    stays = rng.standard_normal((CLIENTS, COORDINATES))
    who, seen = [], []
    for number in range(rounds):
        members = _membership(schedule(number))
        who.append(members)
        seen.append(members @ (stays + rng.standard_normal(stays.shape)))
    found = np.linalg.lstsq(np.concatenate(who), np.concatenate(seen), rcond=None)[0]
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(stays, axis=1)
    return float(np.mean(np.sum(found * stays, axis=1) / lengths))


def _membership(epoch: int) -> np.ndarray:
    """Return the [p, n] matrix that turns updates into shard means."""
    plan = assign_shards(dict.fromkeys(range(CLIENTS), b""), shards=SHARDS, epoch=epoch, seed=b"an example")
    members = np.zeros((SHARDS, CLIENTS))
    for row, shard in enumerate(plan.shards):
        members[row, list(shard)] = 1 / len(shard)
    return members


main()
