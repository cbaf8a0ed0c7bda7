"""Samples of the clients: public, uniform, and in units that are drawn together."""

import hashlib
from collections import Counter

import pytest

from f2ed.core.errors import ConfigError
from f2ed.protocol.sharding import Batches, EveryKRounds, EveryRound, Fixed, Sampling, sample_groups
from f2ed.protocol.sharding.shuffle import drawn

SEED = bytes(range(32))
ROSTER = {client: bytes([client % 256]) * 32 for client in range(0, 120, 2)}
SCHEDULES = [Fixed(), EveryRound(), EveryKRounds(3), Batches(size=2, k=2)]


def sampling(schedule, per_round=12, shards=3, roster=None, seed=SEED):
    return Sampling(roster or ROSTER, per_round=per_round, shards=shards, schedule=schedule, seed=seed)


def members(assignment):
    return sorted(client for shard in assignment.shards for client in shard)


def test_a_draw_by_hand_is_the_same_for_everyone():
    """For a client written in another language."""
    first = int.from_bytes(hashlib.sha256(bytes(40)).digest()[:8], "big") % 10_000
    assert drawn(5, 10_000, bytes(32)) == [first, 9523, 1369, 6170, 240] == [3308, 9523, 1369, 6170, 240]
    assert sorted(drawn(7, 7, b"any")) == list(range(7))


def test_every_set_is_drawn_equally_often():
    times = Counter(tuple(drawn(2, 4, number.to_bytes(8, "big"))) for number in range(6000))
    assert len(times) == 12
    assert min(times.values()) > 400
    assert max(times.values()) < 600


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_shards_are_assigned_within_the_sample(schedule):
    draw = sampling(schedule)
    for round_ in range(6):
        found = draw(round_)
        assert len(found.shards) == 3
        assert len(members(found)) == len(set(members(found))) == 12
        assert set(members(found)) <= set(ROSTER)
        assert {len(shard) for shard in found.shards} == {4}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_new_epoch_has_a_new_sample_and_the_same_one_has_the_same(schedule):
    draw, again = sampling(schedule), sampling(schedule)
    samples = {draw.epoch(round_): members(draw(round_)) for round_ in range(6)}
    assert all(members(again(round_)) == samples[draw.epoch(round_)] for round_ in reversed(range(6)))
    assert len({tuple(sample) for sample in samples.values()}) == len(samples) > 1


def test_fixed_shards_are_drawn_whole():
    draw = sampling(Fixed())
    whole = set(draw.units)
    assert sorted(client for unit in whole for client in unit) == sorted(ROSTER)
    for round_ in range(20):
        assert set(draw(round_).shards) <= whole


def test_batches_are_drawn_whole():
    draw = sampling(Batches(size=2))
    for round_ in range(10):
        sample = set(members(draw(round_)))
        assert all(set(unit) <= sample or sample.isdisjoint(unit) for unit in draw.units)


def test_everyone_takes_part_about_equally_often():
    draw = sampling(EveryRound())
    times = Counter(client for round_ in range(500) for client in members(draw(round_)))
    assert set(times) == set(ROSTER)
    assert 60 < min(times.values()) < 100 < max(times.values()) < 140


@pytest.mark.parametrize("changed", [{"seed": bytes(32)}, {"roster": ROSTER | {0: b"another key"}}])
def test_the_sample_depends_on_the_seed_and_on_the_roster(changed):
    assert members(sampling(EveryRound())(0)) != members(sampling(EveryRound(), **changed)(0))


@pytest.mark.parametrize(
    ("draw", "reason"),
    [
        (lambda: sampling(Fixed(), per_round=61), "61 of 60 clients per round"),
        (lambda: sampling(Fixed(), per_round=2), "2 of 60 clients per round in 3 shards"),
        (lambda: sampling(Batches(size=6)), "12 clients per round make 2 batches of 6, too few for 3 shards"),
        (lambda: sample_groups([(1,)], count=2, epoch=0, seed=b"", roster=b""), "a sample of 2 of 1 groups"),
    ],
)
def test_a_sample_that_cannot_be_drawn_is_refused(draw, reason):
    with pytest.raises(ConfigError, match=reason):
        draw()
