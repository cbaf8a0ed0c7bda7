"""A node's identity, from plain mappings: no network engine is involved."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from f2ed.core.errors import ConfigError, PeerError, Refusal
from f2ed.deployment.encrypted_key import ENTROPY
from f2ed.deployment.identity import identify, is_test, key_store, roster_from
from f2ed.deployment.key_memory import key_folder
from f2ed.deployment.keyfiles import Encryption, read_private, write_pair
from f2ed.deployment.roster import Entry, Roster, signed, write_roster
from f2ed.deployment.state_store import FileStore, Kept
from f2ed.protocol.secagg import public_key


@pytest.fixture
def node_config(tmp_path):
    """Return the settings of client 2 of a signed roster."""
    authority, keys = os.urandom(32), [os.urandom(32) for _ in range(6)]
    write_pair(tmp_path / "authority.key", authority)
    write_pair(tmp_path / "mine.key", keys[2])
    entries = tuple(Entry(client, f"client_{client}", public_key(key)) for client, key in enumerate(keys))
    draft = Roster(name="clinics", authority=public_key(authority), clients=entries)
    write_roster(tmp_path / "roster.json", signed(draft, authority, shards=2, min_crowd=3, seed=os.urandom(32)))
    return {
        "f2ed-key": str(tmp_path / "mine.key"),
        "f2ed-roster": str(tmp_path / "roster.json"),
        "f2ed-authority": str(tmp_path / "authority.pub"),
        "f2ed-keys": str(tmp_path / "mine.state"),
    }


def identified(node_config, run_config=None, *, simulated=False):
    return identify(node_config, run_config or {}, simulated=lambda: simulated, simulation_store=FileStore("nowhere"))


def test_a_node_finds_itself_on_the_roster_by_its_key(node_config, tmp_path):
    me = identified(node_config)
    assert (me.id, me.roster.name, me.test, me.budget) == (2, "clinics", False, None)
    assert me.signing_key.hex() not in repr(me)
    assert me.member(7).survivors == me.survivors.confirm, "sets of survivors are counted"
    assert me.survivors.least == me.roster.grouping.hidden + me.roster.colluders == 3
    with me.store.open("job") as desk:
        desk.write(Kept(b"state", b"model"))
    with identified(node_config).store.open("job") as desk:
        assert desk.read() == Kept(b"state", b"model")
    assert (tmp_path / "mine.state").is_dir()


def test_an_encrypted_key_is_opened_with_the_passphrase_that_the_settings_name(node_config, tmp_path):
    key = read_private(tmp_path / "mine.key")
    write_pair(tmp_path / "sealed.key", key, Encryption(b"correct horse battery", bytes(ENTROPY)))
    (tmp_path / "words").write_text("correct horse battery\n", "utf-8")
    (tmp_path / "words").chmod(0o600)
    sealed = node_config | {"f2ed-key": str(tmp_path / "sealed.key")}
    assert identified(sealed | {"f2ed-passphrase": f"file:{tmp_path / 'words'}"}).signing_key == key
    with pytest.raises(ConfigError, match="passphrase"):
        identified(sealed)


@pytest.mark.parametrize("zone", ["Etc/GMT+12", "Etc/GMT-12"])
def test_a_day_is_that_of_utc_wherever_the_node_is(node_config, monkeypatch, zone):
    """In one of both zones another day is written on the calendar at any time."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    before = datetime.now(UTC).date().isoformat()
    try:
        identified(node_config)
    finally:
        monkeypatch.undo()
        time.tzset()
    (path,) = Path(node_config["f2ed-keys"]).parent.rglob("*.pin")
    assert before <= msgspec.json.decode(path.read_bytes())["day"] <= datetime.now(UTC).date().isoformat()


@pytest.mark.parametrize("missing", ["f2ed-key", "f2ed-roster", "f2ed-authority"])
def test_a_node_without_a_setting_refuses_and_names_it(node_config, missing):
    del node_config[missing]
    with pytest.raises(Refusal, match=f"without {missing} in its --node-config"):
        identified(node_config, {"f2ed-roster": "test:6/2"}, simulated=True)


def test_a_test_roster_is_for_simulations_only():
    run_config = {"f2ed-roster": "test:6/2"}
    me = identified({"partition-id": 4}, run_config, simulated=True)
    assert (me.id, me.test, is_test(me.roster)) == (4, True, True)
    with pytest.raises(Refusal, match="has no key or no authority to trust"):
        identified({"partition-id": 4}, run_config, simulated=False)


def test_a_partition_beyond_the_test_roster_is_refused():
    with pytest.raises(Refusal, match="partition 6 is not among the 6 clients"):
        identified({"partition-id": 6}, {"f2ed-roster": "test:6/2"}, simulated=True)


def test_a_key_that_is_not_on_the_roster_is_refused(node_config, tmp_path):
    write_pair(tmp_path / "other.key", os.urandom(32))
    with pytest.raises(Refusal, match="this node's key is not on the roster 'clinics'"):
        identified(node_config | {"f2ed-key": str(tmp_path / "other.key")})


def test_a_roster_of_another_authority_is_refused(node_config, tmp_path):
    write_pair(tmp_path / "mallory.key", os.urandom(32))
    with pytest.raises(PeerError, match="names the authority"):
        identified(node_config | {"f2ed-authority": str(tmp_path / "mallory.pub")})


@pytest.mark.parametrize(("where", "why"), [("", "no roster"), ("test:many", "names no test roster")])
def test_a_roster_that_cannot_be_named_is_refused(where, why):
    with pytest.raises(ConfigError, match=why):
        roster_from(where)


def test_the_keys_of_a_roster_that_expired_are_erased(node_config, tmp_path):
    me = identified(node_config)
    with me.store.open("job") as desk:
        desk.write(Kept(b"state"))
    for expires, left in (("", b"state"), ("2999-12-31", b"state"), ("2020-01-01", b"")):
        roster = msgspec.structs.replace(me.roster, expires=expires)
        with key_store(roster, tmp_path, tmp_path / "mine.state").open("job") as desk:
            assert desk.read().state == left


def test_keys_are_filed_by_federation_and_serial(node_config, tmp_path):
    """Else a node in two federations would erase the keys of one for the other."""
    me = identified(node_config)
    with me.store.open("job") as desk:
        desk.write(Kept(b"state"))
    (path,) = (each for each in (tmp_path / "mine.state").glob("keys-*") if not each.suffix)
    assert path.name.startswith(f"keys-{me.roster.lineage}-{me.roster.serial}-")


def test_keys_are_where_the_system_keeps_memory_unless_the_settings_say_where(node_config, tmp_path):
    del node_config["f2ed-keys"]
    me = identified(node_config | {"f2ed-state": str(tmp_path / "state")})
    with me.store.open("job") as desk:
        desk.write(Kept(b"state"))
    assert list(key_folder(tmp_path / "state").glob(f"keys-{me.roster.lineage}-*"))
    me.store.forget()


def test_a_damaged_state_is_refused(tmp_path):
    store = FileStore(tmp_path / "state")
    with store.open("job") as desk:
        desk.write(Kept(b"state"))
    (path,) = (each for each in (tmp_path / "state").iterdir() if each.suffix == "")
    path.write_bytes(b"damaged")
    with store.open("job") as desk, pytest.raises(ConfigError, match="delete it to start over"):
        desk.read()
