"""A thousand random rounds: sizes, modes, dropouts and misbehavior at random, and never a wrong sum."""

import pytest

from f2ed.core.randomness import stream
from f2ed.protocol.secagg.messages import read_reply, write
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Reveal, Share
from tests.protocol.secagg.shard_driver import STEPS, Shard

RUNS = 1000
BATCHES = 10
# Small shards are most of them, since a round costs the square of its size; every size from 3 to 20 occurs.
SIZES = [3] * 30 + [4] * 26 + [5] * 18 + [6] * 10 + [*range(7, 21)] + [7, 8]


def corrupt(rng, step, data, seen):
    """Return what a malicious client sends instead: junk, a cut, a flipped bit, another's words or wrong shares."""
    kind = rng.choice(["junk", "cut", "flip", "copy", "shares"])
    if kind == "shares" and step == "reveal":
        honest = read_reply(Reveal, data).shares
        return write(Reveal(rng.bytes(32), tuple(Share(each.dealer, rng.bytes(33)) for each in honest)))
    if kind == "flip" and step != "upload":
        place = int(rng.integers(len(data)))
        return data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]
    if kind == "copy" and step != "upload" and seen:
        return seen[int(rng.integers(len(seen)))]
    if kind == "cut":
        return data[: int(rng.integers(len(data)))]
    return rng.bytes(int(rng.integers(200)))


def run_one(number):
    rng = stream(7, "run", number)
    size = int(rng.choice(SIZES))
    mode = str(rng.choice(["dropout-tolerant", "dropout-tolerant", "dropout-tolerant", "all-or-nothing"]))
    colluders = int(rng.integers(0, max(1, min(4, size - 2))))
    shard = Shard(
        size, mode, seed=number, colluders=colluders, length=5, ring=int(rng.choice([16, 24, 32, 64])), bits=8
    )
    steps = STEPS[mode]
    liars = {int(c): str(rng.choice(steps)) for c in rng.choice(size, colluders, replace=False) + 1}
    often = rng.choice([0.0, 0.05, 0.2])
    gone = {c: str(rng.choice(steps)) for c in range(1, size + 1) if rng.random() < often}
    seen = []

    def reply(step, client, data):
        sent = corrupt(rng, step, data, seen) if liars.get(client) == step else data
        if step != "upload":
            seen.append(data)
        return sent

    return shard, shard.run(drop=lambda step, client: gone.get(client) == step, reply=reply)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_shard_opens_with_the_exact_sum_of_its_survivors_or_says_why_not(batch):
    opened = closed = 0
    for number in range(batch, RUNS, BATCHES):
        shard, outcome = run_one(number)
        if outcome.reason is None:
            opened += 1
            assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)
            assert len(outcome.survivors) >= shard.terms.min_crowd
        else:
            closed += 1
            assert outcome.total is None
            assert outcome.dropped or "cannot be rebuilt" in outcome.reason
    assert opened > 30
    assert closed > 5
