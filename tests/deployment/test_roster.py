"""What a signed roster fixes, so that no server can choose it."""

import os

import msgspec
import pytest

from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.roster import (
    Entry,
    Roster,
    check_signature,
    derived_terms,
    read_roster,
    read_serials,
    signed,
    write_roster,
)
from f2ed.protocol.secagg import public_key
from f2ed.protocol.sharding import Batches


def roster(count, **settings):
    authority = os.urandom(32)
    entries = tuple(Entry(client, f"client_{client}", public_key(os.urandom(32))) for client in range(count))
    draft = Roster(name="clinics", authority=public_key(authority), clients=entries)
    return signed(draft, authority, **{"shards": 1, "min_crowd": 3, "seed": bytes(32)} | settings)


@pytest.mark.parametrize(
    ("size", "mode", "colluders", "threshold", "min_crowd"),
    [
        (3, "all-or-nothing", 1, 3, 3),
        (10, "all-or-nothing", 1, 10, 10),
        (11, "dropout-tolerant", 1, 7, 7),
        (12, "dropout-tolerant", 1, 7, 7),
        (21, "dropout-tolerant", 1, 12, 12),
    ],
)
def test_the_defaults_assume_a_colluder_and_follow_the_size(size, mode, colluders, threshold, min_crowd):
    terms = derived_terms(roster(size), 7, 0, 0, 12)
    assert (terms.mode, terms.colluders, terms.threshold, terms.min_crowd) == (mode, colluders, threshold, min_crowd)
    assert mode == "all-or-nothing" or 2 * terms.threshold > size + terms.colluders


def test_a_signed_crowd_is_demanded_where_it_is_larger():
    assert derived_terms(roster(20, min_crowd=16), 7, 0, 0, 12).min_crowd == 16


@pytest.mark.parametrize(("size", "colluders"), [(3, 2), (4, 3), (12, 11), (2, 1), (4, -1)])
def test_more_colluders_than_leave_two_honest_members_are_refused(size, colluders):
    with pytest.raises(ConfigError, match=f"{colluders} colluders in a shard of {size}: nobody could hide"):
        roster(size, colluders=colluders, min_crowd=2)


def test_shards_of_two_can_have_no_colluder():
    assert roster(2, min_crowd=2).colluders == 0


def test_the_key_epoch_follows_from_the_round():
    fixed, resharded = roster(6, key_rounds=3), roster(6, schedule=Batches(3, 5), key_rounds=3)
    assert [fixed.key_epoch(turn) for turn in (0, 2, 3, 8)] == [0, 0, 1, 2]
    assert [resharded.key_epoch(turn) for turn in (0, 4, 5, 12)] == [0, 0, 1, 2]


@pytest.mark.parametrize("settings", [{"key_rounds": 0}, {"skip": 0}, {"first_round": -1}])
def test_numbers_that_no_node_could_follow_are_not_signed(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        roster(6, **settings)


def test_the_digest_covers_every_setting():
    same = {"seed": bytes(32), "min_crowd": 3, "shards": 1}
    authority = os.urandom(32)
    entries = tuple(Entry(client, f"c{client}", public_key(bytes([client]) * 32)) for client in range(12))
    draft = Roster(name="clinics", authority=public_key(authority), clients=entries)
    changes = [{}, {"mode": "all-or-nothing"}, {"colluders": 2}, {"key_rounds": 7}, {"min_crowd": 4}, {"skip": 7}]
    changes += [{"first_round": 3}]
    digests = {signed(draft, authority, **same | change).digest for change in changes}
    assert len(digests) == len(changes)


def test_another_spelling_of_the_same_roster_has_the_same_digest(tmp_path):
    made = roster(6)
    (tmp_path / "one.json").write_bytes(msgspec.json.encode(made, order="sorted"))
    write_roster(tmp_path / "other.json", made)
    assert read_roster(tmp_path / "one.json") == read_roster(tmp_path / "other.json")
    check_signature(read_roster(tmp_path / "one.json"), made.authority)


def test_an_unknown_field_is_refused(tmp_path):
    (tmp_path / "roster.json").write_bytes(msgspec.json.encode(msgspec.to_builtins(roster(6)) | {"more": 1}))
    with pytest.raises(ConfigError, match="unknown field `more`"):
        read_roster(tmp_path / "roster.json")


def test_bytes_that_were_verified_are_not_verified_again_and_others_are(tmp_path):
    signed_roster, path = roster(4), tmp_path / "roster.json"
    write_roster(path, signed_roster)
    (first,), (again,) = (read_serials(path, signed_roster.authority) for _ in range(2))
    assert first is again
    assert first == signed_roster
    with pytest.raises(PeerError, match="this node trusts"):
        read_serials(path, public_key(bytes(32)))
    path.write_bytes(path.read_bytes().replace(b"client_3", b"client_9"))
    with pytest.raises(PeerError, match="was changed after it was signed"):
        read_serials(path, signed_roster.authority)


def test_shards_per_round_are_signed_and_leave_older_rosters_as_they_are():
    whole, sampled = roster(24, shards=6), roster(24, shards=6, shards_per_round=2)
    assert b"shards_per_round" not in msgspec.json.encode(whole)
    assert sampled.digest != whole.digest
    assert msgspec.json.decode(msgspec.json.encode(sampled), type=Roster).shards_per_round == 2
    assert len(sampled.assignment(7).shards) == 2
    assert sampled.skip == 3 * whole.skip  # a shard that is drawn for one round of three waits three times as long


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"shards_per_round": 7}, "7 shards per round of 6"),
        ({"shards_per_round": 2, "schedule": Batches(2)}, "draws among fixed shards"),
    ],
)
def test_shards_that_cannot_be_drawn_are_not_signed(settings, reason):
    with pytest.raises(ConfigError, match=reason):
        roster(24, shards=6, **settings)
