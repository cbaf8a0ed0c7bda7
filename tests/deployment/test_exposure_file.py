"""A node counts the groups of all federations that its key was in."""

import os

import msgspec
import pytest

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.exposure import Exposure
from f2ed.deployment.roster import Entry, Roster, signed
from f2ed.protocol.secagg import public_key

KEYS = [public_key(bytes([client + 1]) * 32) for client in range(8)]


def federation(name, *, seed=b"a" * 32, shards=2, keys=KEYS, **settings):
    authority = os.urandom(32)
    entries = tuple(Entry(client, f"client_{client}", each) for client, each in enumerate(keys))
    draft = Roster(name=name, authority=public_key(authority), clients=entries)
    return signed(draft, authority, shards=shards, min_crowd=3, seed=seed, **settings)


def other_groups(first):
    """Return a federation of the same people in which client 0 has at most one of its companions."""
    for number in range(99):
        found = federation("others", seed=bytes([number]) * 32)
        if len({*found.shard_of(0, 0)} & {*first.shard_of(0, 0)}) <= 2:
            return found
    raise AssertionError


def test_a_new_federation_of_the_same_people_does_not_begin_at_zero(tmp_path):
    mine, first = Exposure(tmp_path), federation("first")
    mine.follow(first, KEYS[0])
    second = other_groups(first)
    with pytest.raises(Refusal, match=r"in any federation, determine 0\.\d+ of its update, and at most 0\.33"):
        mine.follow(second, KEYS[0])
    Exposure(tmp_path / "elsewhere").follow(second, KEYS[0])
    mine.follow(first, KEYS[0])


def test_the_share_that_counts_is_that_of_the_node_itself(tmp_path):
    """One of four people was in another group of four before; the sums say more of this one than of its companions."""
    first = federation("first", shards=1, keys=KEYS[:4])
    second = federation("second", shards=1, keys=[KEYS[0], KEYS[4], KEYS[5], KEYS[6]], accepted=("leak",))
    for key, refused in ((KEYS[0], True), (KEYS[3], False)):
        mine = Exposure(tmp_path / key.hex())
        mine.follow(second, key)
        if refused:
            with pytest.raises(Refusal, match="in any federation, determine"):
                mine.follow(first, key)
        else:
            mine.follow(first, key)


def test_a_node_that_waits_for_a_group_is_exposed_to_nothing(tmp_path):
    Exposure(tmp_path).follow(federation("first"), public_key(bytes([99]) * 32))
    assert (tmp_path / "exposure").exists()


def test_where_the_leak_is_accepted_it_is_followed_and_remembered(tmp_path):
    mine, first = Exposure(tmp_path), federation("first")
    mine.follow(federation("risky", seed=other_groups(first).draw.value, accepted=("leak",)), KEYS[0])
    known = msgspec.json.decode((tmp_path / "exposure").read_bytes())["groups"]
    assert len(known) == 2


def test_the_same_groups_in_another_federation_add_nothing(tmp_path):
    mine = Exposure(tmp_path)
    whole = federation("first", shards=1, keys=KEYS[:4])
    mine.follow(whole, KEYS[0])
    mine.follow(federation("second", shards=1, keys=KEYS[:4][::-1]), KEYS[0])
    assert len(msgspec.json.decode((tmp_path / "exposure").read_bytes())["groups"]) == 1


def test_a_roster_that_breaks_a_rule_is_not_followed_and_not_remembered(tmp_path):
    roster = federation("first")
    alone = msgspec.structs.replace(roster, groups=(*roster.groups, roster.groups[0]))
    with pytest.raises(Refusal, match="two groups with the same index"):
        Exposure(tmp_path).follow(alone, KEYS[0])
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_refused(tmp_path):
    mine = Exposure(tmp_path)
    mine.follow(federation("first"), KEYS[0])
    (tmp_path / "exposure").write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match="the groups that this node was in"):
        mine.follow(federation("second"), KEYS[0])
