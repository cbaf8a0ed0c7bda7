"""Random protocol runs: sizes, modes, groups, dropouts, liars on both sides, restarts and changes of policy.

No sum below the crowd opens, no sum is wrong, and no exception escapes.
Clients keep nothing but stored bytes between two messages, so that every step is a restart; some forget everything
between two rounds. Every client derives its terms from a policy of its own: some learn late that it changed, and the
server may state another one.
"""

from collections import Counter

import pytest
from msgspec.structs import replace

from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.protocol.secagg.messages import Refused, decode, write
from f2ed.protocol.secagg.schemes import read_request
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Alive, Delivery, Peers, Reveal, Share
from f2ed.protocol.secagg.terms import torn
from tests.protocol.secagg.shard_driver import STEPS, Shard, make_terms

RUNS, NIGHTLY = 150, 10_000
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


def grouped(rng, members):
    """Return the members in pairs and triples, or no groups."""
    if len(members) < 4 or rng.random() < 0.5:
        return ()
    width = int(rng.integers(2, 4))
    firsts = list(range(0, len(members), width))
    if len(members) - firsts[-1] < 2:
        firsts.pop()
    ends = [*firsts[1:], len(members)]
    return tuple(tuple(members[first:end]) for first, end in zip(firsts, ends, strict=True))


def new_policy(rng, members, **fields):
    """Return terms for these members: mode, colluders, crowd and groups are drawn."""
    mode = str(rng.choice(["dropout-tolerant", "dropout-tolerant", "dropout-tolerant", "all-or-nothing"]))
    colluders = int(rng.integers(0, max(1, min(4, len(members) - 2))))
    terms = make_terms(members, mode, colluders=colluders, length=5, bits=8, groups=grouped(rng, members), **fields)
    return replace(terms, min_crowd=int(rng.integers(terms.min_crowd, len(members) + 1)))


def new_shard(rng, number):
    """Return a shard whose clients follow the policy that they hold, and what each of them holds."""
    size = int(rng.choice(SIZES))
    ring = int(rng.choice([16, 24, 32, 64]))
    shard = Shard(size, seed=number, length=5, ring=ring)
    shard.terms = new_policy(rng, tuple(shard.members), ring=ring)
    held = dict.fromkeys(shard.members, shard.terms)
    for client, member in shard.members.items():
        derived = lambda round_, _length, client=client: replace(held[client], round=round_)  # noqa: E731
        shard.members[client] = replace(member, terms=derived)
    return shard, held


def change_policy(rng, shard, held):
    """Replace what the federation agreed on; a few clients have not heard of it, and one may have left."""
    members = shard.terms.members
    if len(members) > 4 and rng.random() < 0.3:
        leaver = rng.choice(members)
        members = tuple(client for client in members if client != leaver)
    fields = {"ring": shard.terms.ring, "round": shard.terms.round, "epoch": shard.terms.epoch + 1}
    agreement = str(rng.choice(["x25519+mlkem768", "x25519"]))
    shard.keys, shard.terms = None, new_policy(rng, members, clip_value=2.0, agreement=agreement, **fields)
    late = rng.choice([0.0, 0.0, 0.1])
    held.update({client: shard.terms for client in held if rng.random() >= late})


def stated(rng, terms):
    """Return what a lying server states instead: a smaller crowd or threshold, no colluders, or fewer members."""
    lies = [
        {"min_crowd": terms.min_crowd - 1},
        {"threshold": terms.threshold - 1, "min_crowd": terms.threshold - 1},
        {"colluders": 0, "threshold": len(terms.members) // 2 + 1},
        {"members": terms.members[:-1], "groups": ()},
        {"groups": ()},
        {"agreement": "x25519"},
    ]
    return replace(terms, **lies[int(rng.integers(len(lies)))])


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
        assert set(outcome.survivors) <= set(shard.terms.members)
        assert not torn(shard.terms, outcome.survivors)
        return "opened"
    assert outcome.total is None
    assert outcome.dropped or "cannot be rebuilt" in outcome.reason
    return "closed"


def check_lie(rng, shard):
    """State other terms than the clients hold, in the next round: nothing opens, whatever the server does with it."""
    shard.next_round()
    lie = stated(rng, shard.terms)
    if lie == shard.terms:
        return "nothing to lie about"
    keys, shard.keys = shard.keys, None
    try:
        outcome = shard.run(terms=lie)
    except ConfigError:  # the server's own code refuses to ask for it
        shard.keys = keys
        return "unsafe lie"
    shard.keys = keys
    assert outcome.total is None
    assert set(outcome.dropped) >= set(lie.members)
    assert all("the server states " in shard.refusals[client] for client in lie.members)
    return "refused lie"


def run_one(number):
    """Run rounds of one shard; between them some clients lose their state, and the policy may change."""
    rng = stream(7, "run", number)
    (shard, held), old = new_shard(rng, number), []
    ends = [check(shard, run_round(rng, shard, old))]
    for client in shard.members:
        if rng.random() < 0.1:
            shard.states[client] = b""
    shard.next_round()
    if rng.random() < 0.5:
        change_policy(rng, shard, held)
    ends.append(check(shard, run_round(rng, shard, old)))
    if rng.random() < 1 / 3:
        held.update(dict.fromkeys(held, shard.terms))
        ends.append(check_lie(rng, shard))
    return ends


def run_many(numbers):
    """Return how the runs ended: both ends must be common, or the faults test nothing."""
    ends = Counter(each for number in numbers for each in run_one(number))
    assert ends["opened"] > ends.total() / 8
    assert ends["closed"] > ends.total() / 50
    return ends


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_shard_opens_with_the_exact_sum_of_its_survivors_or_says_why_not(batch):
    run_many(range(batch, RUNS, BATCHES))


@pytest.mark.nightly
@pytest.mark.parametrize("batch", range(100))
def test_ten_thousand_random_runs(batch):
    """Each run has two rounds of a shard, and one in three a third under a lie."""
    run_many(range(batch, NIGHTLY, 100))
