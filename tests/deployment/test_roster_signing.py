"""What a signing writes into a roster, and what it refuses because no node would follow it."""

import stat

import msgspec
import pytest

from f2ed.core.errors import ConfigError
from f2ed.deployment.roster import Entry, Gone, Roster, revised, round_task, signed, write_roster
from f2ed.deployment.roster.files import read_serials
from f2ed.deployment.roster.parts import SignedEncoding
from f2ed.protocol.secagg import public_key
from f2ed.protocol.sharding import EveryKRounds

AUTHORITY, CHAIN = b"a" * 32, b"c" * 32
replace = msgspec.structs.replace


def entry(client, weight=1):
    return Entry(client, f"client_{client}", public_key(client.to_bytes(32, "big")), weight=weight)


def draft(weights=(1,) * 8, **fields):
    clients = tuple(entry(client, weight) for client, weight in enumerate(weights))
    return Roster(name="clinics", authority=public_key(AUTHORITY), clients=clients, **fields)


def close(roster, **changes):
    return signed(roster, AUTHORITY, **{"shards": 2, "min_crowd": 3, "seed": CHAIN} | changes)


def test_a_serial_says_since_when_clients_are_in_it_and_until_when_they_were():
    one = close(draft())
    assert {each.since for each in one.clients} == {1}
    left = [each for each in one.clients if each.id != 7]
    gone = (Gone(7, "client_7", one.clients[7].key),)
    two = close(revised(one, clients=(*left, entry(8)), gone=gone), accepted=["leak", "pool"])
    assert {each.id: each.since for each in two.clients} == {**dict.fromkeys(range(7), 1), 8: 2}
    assert [(each.id, each.until) for each in two.gone] == [(7, 2)]
    three = close(two)
    assert [(each.id, each.until) for each in three.gone] == [(7, 2)]
    assert three.clients == two.clients


@pytest.mark.parametrize(
    ("changes", "skip"),
    [
        ({}, 20),
        ({"skip": 7}, 7),
        ({"skip": 1}, 1),
        ({"shards_per_round": 1}, 40),
        ({"shards_per_round": 2}, 20),
    ],
)
def test_a_node_follows_over_twice_as_many_rounds_as_keys_live_and_longer_where_it_is_drawn_rarely(changes, skip):
    roster = close(draft(), key_rounds=10, **changes)
    assert roster.skip == skip
    if "shards_per_round" in changes:
        assert close(roster, shards=None, key_rounds=10).skip == skip, "as in the serial before"
        assert close(roster, shards_per_round=0, key_rounds=10).skip == 20


@pytest.mark.parametrize(("name", "value", "least"), [("key_rounds", 0, 1), ("first_round", -1, 0), ("skip", 0, 1)])
def test_numbers_below_the_least_are_refused_by_name(name, value, least):
    with pytest.raises(ConfigError, match=f"{name} of {value}; it must be {least} or more"):
        close(draft(), **{name: value})
    close(draft(), **{name: least})


def test_where_shards_move_the_heaviest_may_meet_the_lightest():
    """Today all in one shard weigh 4, and all in the other 1; in a later round one of 4 will be among those of 1."""
    moving = {"schedule": EveryKRounds(k=5), "accepted": ["leak", "pool"]}
    heavy, _ = close(draft(), **moving).whole_assignment(0).shards
    weights = [4 if client in heavy else 1 for client in range(8)]
    with pytest.raises(
        ConfigError, match="a member of weight 4 may be opened with honest others whose weights sum to 2"
    ):
        close(draft(weights, weight_cap=4), **moving)
    close(draft([each // 4 + 1 for each in weights], weight_cap=2), **moving | {"colluders": 0})


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_weights_count_where_the_cap_allows_them(cap):
    roster = close(draft((cap, 1, 1, 1, 1, 1, 1, 1), weight_cap=cap), min_crowd=4, colluders=0, accepted=["leak"])
    task = round_task(roster, "job", 0, model=bytes(32), coordinates=1)
    assert task.weights == (None if cap == 1 else {0: cap, **dict.fromkeys(range(1, 8), 1)})
    assert task.weight_cap == cap


def test_a_changed_roster_lacks_all_signatures():
    roster = replace(close(draft()), countersignatures=())
    made = revised(roster, min_crowd=4)
    assert (made.signature, made.countersignatures) == (b"", msgspec.UNSET)
    assert made.previous == roster.digest
    assert revised(made, min_crowd=3).previous == roster.digest, "a draft is nobody's predecessor"


def test_a_folder_holds_all_serials_and_files_of_other_kinds_do_not_count(tmp_path):
    one = close(draft())
    two = close(one, key_rounds=9)
    for name, roster in (("b.json", two), ("a.json", one)):
        write_roster(tmp_path / name, roster)
    (tmp_path / "notes.txt").write_text("none", "utf-8")
    assert [each.serial for each in read_serials(tmp_path, public_key(AUTHORITY))] == [1, 2]
    assert [each.serial for each in read_serials(tmp_path / "b.json", public_key(AUTHORITY))] == [2]


def test_everyone_may_read_a_roster(tmp_path):
    write_roster(tmp_path / "roster.json", close(draft()))
    assert stat.S_IMODE((tmp_path / "roster.json").stat().st_mode) == 0o644


def test_the_signed_encoding_is_the_one_that_is_used():
    found = SignedEncoding(clip_value=2.0, clip_norm=3.0, bits=14).to_encoding()
    assert (found.clip_value, found.clip_norm, found.bits) == (2.0, 3.0, 14)


def test_groups_are_made_on_request_alone_or_not_at_all():
    one = close(draft((1,) * 12), shards=3)
    more = revised(one, clients=(*one.clients, *map(entry, range(12, 16))))
    waits = close(more, shards=None, regroup="none")
    assert (waits.groups, waits.waiting) == (one.groups, (12, 13, 14, 15))
    assert len(close(more, shards=None, regroup="new").groups) == 4
    with pytest.raises(ConfigError, match="new groups for everyone: "):
        close(more, shards=None, regroup="all")
    again = close(more, shards=None, regroup="all", accepted=["leak"])
    assert len(again.groups) == 4
    assert again.history == one.groups
