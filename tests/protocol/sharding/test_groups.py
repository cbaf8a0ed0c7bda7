"""Groups are drawn once and assigned whole."""

import pytest

from f2ed.core.errors import ConfigError
from f2ed.protocol.sharding.groups import assign_groups, draw_groups, min_union

CLIENTS = {client: bytes([client]) * 32 for client in range(14)}
GROUPS = draw_groups(CLIENTS, count=3, seed=b"x")


def assign(groups=GROUPS, *, shards=2, epoch=0, min_size=1):
    return assign_groups(groups, shards=shards, epoch=epoch, seed=b"x", roster=b"r", min_size=min_size)


def test_groups_differ_in_size_by_one_and_hold_everyone_once():
    assert sorted(map(len, GROUPS)) == [4, 5, 5]
    assert sorted(client for group in GROUPS for client in group) == sorted(CLIENTS)


def test_another_seed_or_key_draws_other_groups():
    assert draw_groups(CLIENTS, count=3, seed=b"y") != GROUPS
    assert draw_groups(CLIENTS | {3: b"k"}, count=3, seed=b"x") != GROUPS


@pytest.mark.parametrize("count", [0, 15])
def test_impossible_groups_are_refused(count):
    with pytest.raises(ConfigError, match="draw 1 to 14"):
        draw_groups(CLIENTS, count=count, seed=b"x")


def test_every_shard_is_a_union_of_groups_in_every_epoch():
    plans = [assign(epoch=epoch).shards for epoch in range(20)]
    assert len(set(plans)) > 1
    for shard in (shard for plan in plans for shard in plan):
        assert sum((set(group) <= set(shard)) * len(group) for group in GROUPS) == len(shard)


def test_a_shard_is_a_group_where_there_are_as_many():
    assert sorted(assign(shards=3).shards) == sorted(assign(shards=3, epoch=9).shards) == sorted(GROUPS)


@pytest.mark.parametrize("shards", [0, 4])
def test_more_shards_than_groups_are_refused(shards):
    with pytest.raises(ConfigError, match="3 groups for"):
        assign(shards=shards)


def test_shards_below_the_crowd_are_refused():
    with pytest.raises(ConfigError, match="fewer than 6"):
        assign(shards=3, min_size=6)


def test_the_smallest_union_bounds_the_shards_of_every_epoch():
    smallest = min(len(shard) for epoch in range(50) for shard in assign(epoch=epoch).shards)
    assert min_union(GROUPS, 2) == smallest == 4
    assert min_union((), 2) == 0
