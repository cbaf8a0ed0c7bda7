"""Random protocol runs: sizes, modes, groups, dropouts, liars on both sides, restarts and changed terms.

No sum below the crowd opens, no wrong sum, and no exception escapes. Clients keep nothing but stored bytes between two
messages, so that every step is a restart; some forget everything between two rounds.
"""

import pytest
from msgspec.structs import replace

from f2ed.core.randomness import stream
from f2ed.protocol.secagg.messages import Refused, decode, write
from f2ed.protocol.secagg.schemes import read_request
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Alive, Delivery, Peers, Reveal, Share
from f2ed.protocol.secagg.terms import torn
from tests.protocol.secagg.shard_driver import STEPS, Shard

RUNS, NIGHTLY = 300, 10_000
BATCHES = 10
# Small shards are most of them, since a round costs the square of its size; every size from 3 to 20 occurs.
SIZES = [3] * 30 + [4] * 26 + [5] * 18 + [6] * 10 + [*range(7, 21)] + [7, 8]


def corrupt(rng, step, data, seen):
    """Return what a malicious client sends instead: junk, a cut, a flipped bit, another's words or wrong shares."""
    kind = rng.choice(["junk", "cut", "flip", "copy", "shares"])
    if kind == "shares" and step == "reveal" and isinstance(reply := decode((Reveal, Refused), data), Reveal):
        return write(Reveal(rng.bytes(32), tuple(Share(each.dealer, rng.bytes(33)) for each in reply.shares)))
    if kind == "flip" and step != "upload":
        return flipped(rng, data)
    if kind == "copy" and step != "upload" and seen:
        return seen[int(rng.integers(len(seen)))]
    if kind == "cut":
        return data[: int(rng.integers(len(data)))]
    return rng.bytes(int(rng.integers(200)))


def flipped(rng, data):
    place = int(rng.integers(len(data)))
    return data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]


def lied(rng, step, data, old):
    """Return what a lying server sends instead: an old request, a flipped bit, or less than there was."""
    kind = rng.choice(["old", "flip", "fewer"])
    if kind == "old" and old:
        return old[int(rng.integers(len(old)))]
    if kind == "fewer" and step in {"share", "upload", "confirm"}:
        asked = read_request(data)
        if isinstance(asked, Peers):
            return write(Peers(asked.advertisements[:-1]))
        if isinstance(asked, Delivery):
            return write(Delivery(asked.parcels[1:]))
        if isinstance(asked, Alive):
            return write(Alive(asked.clients[1:]))
    return flipped(rng, data)


def grouped(rng, size):
    """Return the members in pairs and triples, or no groups."""
    if size < 4 or rng.random() < 0.5:
        return ()
    width = int(rng.integers(2, 4))
    firsts = list(range(1, size + 1, width))
    if size + 1 - firsts[-1] < 2:
        firsts.pop()
    ends = [*firsts[1:], size + 1]
    return tuple(tuple(range(first, end)) for first, end in zip(firsts, ends, strict=True))


def new_shard(rng, number):
    size = int(rng.choice(SIZES))
    mode = str(rng.choice(["dropout-tolerant", "dropout-tolerant", "dropout-tolerant", "all-or-nothing"]))
    colluders = int(rng.integers(0, max(1, min(4, size - 2))))
    ring = int(rng.choice([16, 24, 32, 64]))
    return Shard(size, mode, seed=number, colluders=colluders, length=5, ring=ring, bits=8, groups=grouped(rng, size))


def run_round(rng, shard, old):
    """Run one round with random faults; return its outcome."""
    steps, members = STEPS[shard.terms.mode], shard.terms.members
    liars = {int(c): str(rng.choice(steps)) for c in rng.choice(members, shard.terms.colluders, replace=False)}
    often = rng.choice([0.0, 0.05, 0.2])
    gone = {c: str(rng.choice(steps)) for c in members if rng.random() < often}
    misled = {c: str(rng.choice(steps)) for c in members if rng.random() < often / 2}
    seen = []

    def reply(step, client, data):
        sent = corrupt(rng, step, data, seen) if liars.get(client) == step else data
        if step != "upload":
            seen.append(data)
        return sent

    def request(step, client, data):
        given = lied(rng, step, data, old) if misled.get(client) == step else data
        old.append(data)
        return given

    return shard.run(drop=lambda step, client: gone.get(client) == step, reply=reply, request=request)


def check(shard, outcome):
    """Return whether it opened; it must be right, or say why not."""
    if outcome.reason is None:
        assert shard.total_of(outcome) == shard.sum_of(outcome.survivors)
        assert len(outcome.survivors) >= shard.terms.min_crowd
        assert not torn(shard.terms, outcome.survivors)
        return True
    assert outcome.total is None
    assert outcome.dropped or "cannot be rebuilt" in outcome.reason
    return False


def run_one(number):
    """Run two rounds of one shard; between them some clients lose their state and the terms may change."""
    rng = stream(7, "run", number)
    shard, old = new_shard(rng, number), []
    opened = [check(shard, run_round(rng, shard, old))]
    for client in shard.members:
        if rng.random() < 0.1:
            shard.states[client] = b""
    shard.next_round()
    if rng.random() < 0.5:
        shard.keys, epoch = None, shard.terms.epoch + 1
        shard.terms = replace(
            shard.terms, epoch=epoch, shard=1, clip_value=2.0, groups=grouped(rng, len(shard.members))
        )
    opened.append(check(shard, run_round(rng, shard, old)))
    return opened


def run_many(numbers):
    opened = [each for number in numbers for each in run_one(number)]
    assert opened.count(True) > len(opened) / 5
    assert opened.count(False) > len(opened) / 50


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_shard_opens_with_the_exact_sum_of_its_survivors_or_says_why_not(batch):
    run_many(range(batch, RUNS // 2, BATCHES))


@pytest.mark.nightly
@pytest.mark.parametrize("batch", range(100))
def test_ten_thousand_random_rounds(batch):
    run_many(range(batch, NIGHTLY // 2, 100))
