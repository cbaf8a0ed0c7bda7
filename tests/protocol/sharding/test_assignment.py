import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2ed.core.errors import ConfigError, Refusal
from f2ed.protocol.sharding import Assignment, assign_shards, roster_hash

SEED = b"public seed"
ROSTER = {client: b"key of %d" % client for client in [*range(9), 2**63, 2**64 - 1]}
ASSIGNED = assign_shards(ROSTER, shards=3, epoch=4, seed=SEED)
PINNED = ((3, 7, 8, 18446744073709551615), (1, 2, 4, 9223372036854775808), (0, 5, 6))
PINNED_ROSTER = "31b7184d17cbfc74f3f21038406ff71cde3264f09059d677e37a4e74a9fdc199"


def moved(assignment: Assignment) -> tuple[tuple[int, ...], ...]:
    """Exchange one member of the first two shards."""
    (a, *first), (b, *second), *rest = assignment.shards
    return (tuple(sorted([b, *first])), tuple(sorted([a, *second])), *rest)


@given(st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=60), st.data())
def test_every_client_is_assigned_once_to_shards_of_nearly_one_size(clients, data):
    shards = data.draw(st.integers(1, len(clients)))
    assignment = assign_shards(dict.fromkeys(clients, b""), shards=shards, epoch=0, seed=SEED)
    sizes = [len(members) for members in assignment.shards]
    assert len(sizes) == shards
    assert max(sizes) - min(sizes) <= 1
    assert sorted(client for members in assignment.shards for client in members) == sorted(clients)


def test_ids_beyond_63_bits_survive():
    assert {client for members in ASSIGNED.shards for client in members} == set(ROSTER)


def test_the_assignment_is_pinned():
    assert ASSIGNED.shards == PINNED
    assert ASSIGNED.roster.hex() == PINNED_ROSTER


def test_the_order_in_which_the_roster_was_written_does_not_matter():
    assert assign_shards(dict(reversed(ROSTER.items())), shards=3, epoch=4, seed=SEED) == ASSIGNED


@pytest.mark.parametrize(
    "other",
    [
        assign_shards(ROSTER, shards=3, epoch=5, seed=SEED),
        assign_shards(ROSTER, shards=3, epoch=4, seed=b"another seed"),
        assign_shards(ROSTER | {3: b"another key"}, shards=3, epoch=4, seed=SEED),
    ],
    ids=["epoch", "seed", "roster"],
)
def test_the_assignment_depends_on_the(other):
    assert other.shards != ASSIGNED.shards


def test_a_client_finds_its_shard():
    assert all(client in ASSIGNED.shards[ASSIGNED.shard_of(client)] for client in ROSTER)


def test_a_stranger_has_no_shard():
    with pytest.raises(ConfigError, match="client 77 is in none of the 3 shards"):
        ASSIGNED.shard_of(77)


def test_a_plan_travels_as_bytes():
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(ASSIGNED), type=Assignment) == ASSIGNED


def test_a_client_accepts_the_assignment_that_it_recomputed():
    ASSIGNED.verify(ROSTER, shards=3, epoch=4, seed=SEED, min_size=3)


@pytest.mark.parametrize(
    ("assignment", "why"),
    [
        (msgspec.structs.replace(ASSIGNED, shards=moved(ASSIGNED)), "shard 0 is not the one"),
        (msgspec.structs.replace(ASSIGNED, shards=ASSIGNED.shards[::-1]), "shard 0 is not the one"),
        (assign_shards(ROSTER, shards=3, epoch=5, seed=SEED), "another epoch: 5, and this client has 4"),
        (assign_shards(ROSTER, shards=3, epoch=4, seed=b"chosen"), "another public seed"),
        (assign_shards(ROSTER, shards=2, epoch=4, seed=SEED), "another number of shards: 2"),
        (assign_shards(ROSTER | {0: b"substituted"}, shards=3, epoch=4, seed=SEED), "another roster"),
        (assign_shards({k: v for k, v in ROSTER.items() if k}, shards=3, epoch=4, seed=SEED), "another roster"),
    ],
    ids=["victim among accomplices", "order", "epoch", "seed", "shards", "substituted key", "missing client"],
)
def test_a_client_refuses_another(assignment, why):
    with pytest.raises(Refusal, match=why):
        assignment.verify(ROSTER, shards=3, epoch=4, seed=SEED)


def test_a_client_refuses_a_shard_that_is_too_small():
    with pytest.raises(Refusal, match="a shard of 3 members; this client requires at least 4"):
        ASSIGNED.verify(ROSTER, shards=3, epoch=4, seed=SEED, min_size=4)


def test_a_client_refuses_an_empty_assignment():
    with pytest.raises(Refusal, match="a shard of 0 members"):
        Assignment(shards=(), epoch=4, seed=SEED, roster=roster_hash(ROSTER)).verify(
            ROSTER, shards=3, epoch=4, seed=SEED
        )


@pytest.mark.parametrize(
    ("clients", "shards", "min_size", "why"),
    [
        (11, 4, 3, "leave one with 2, fewer than 3; use at most 3 shards"),
        (2, 1, 3, "wait for at least 3 clients"),
        (5, 0, 1, "0 shards; use at least 1"),
        (5, 1, 0, "use at least 1"),
        (5, 6, 1, "use at most 5 shards"),
    ],
)
def test_an_assignment_that_cannot_be_made_is_refused(clients, shards, min_size, why):
    with pytest.raises(ConfigError, match=why):
        assign_shards(dict.fromkeys(range(clients), b""), shards=shards, epoch=0, seed=SEED, min_size=min_size)


def test_an_id_of_more_than_64_bits_is_refused():
    with pytest.raises(ConfigError, match="64 bits"):
        assign_shards({2**64: b""}, shards=1, epoch=0, seed=SEED)


def test_no_two_rosters_hash_alike_because_their_fields_run_together():
    assert roster_hash({1: b"ab", 2: b""}) != roster_hash({1: b"a", 2: b"b"})


def test_a_victim_meets_each_companion_equally_often_over_epochs():
    roster = dict.fromkeys(range(12), b"")
    assignments = [assign_shards(roster, shards=4, epoch=epoch, seed=SEED) for epoch in range(1100)]
    met = [
        sum(other in assignment.shards[assignment.shard_of(0)] for assignment in assignments) for other in range(1, 12)
    ]
    assert all(abs(times - 200) < 60 for times in met)  # 1100 · 2/11 each, within 4.7 standard deviations
