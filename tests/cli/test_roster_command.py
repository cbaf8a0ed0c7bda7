"""`f2ed roster` and `f2ed certs`, from a key to a verified roster and a trusted certificate."""

import json
import ssl
import subprocess
import sys
from itertools import pairwise

import msgspec
import pytest

from f2ed import ConfigError
from f2ed.cli.app_options import AppOptions
from f2ed.cli.certs import certs
from f2ed.cli.roster import add, key, new, remove, reset, sign, verify
from f2ed.deployment.keyfiles import read_chain
from f2ed.deployment.pin import Pin
from f2ed.deployment.roster import check_step, read_roster
from f2ed.protocol.sharding import Batches, EveryKRounds, Fixed
from tests.deployment.test_apps import bundle


@pytest.fixture
def begun(tmp_path):
    new(tmp_path / "roster.json", name="clinics", authority=tmp_path / "authority.key")
    for client in range(8):
        key(tmp_path / f"clinic_{client}.key")
    add(tmp_path / "roster.json", [tmp_path / f"clinic_{client}.pub" for client in range(8)])
    (tmp_path / "scans.fab").write_bytes(bundle())
    return tmp_path


def close(folder, **settings):
    if not json.loads((folder / "roster.json").read_bytes()).get("apps"):
        settings.setdefault("apps", AppOptions([folder / "scans.fab"]))
    sign(folder / "roster.json", authority=folder / "authority.key", **settings)


def test_the_head_of_the_chain_stands_in_the_authoritys_key_and_no_other_verifies(begun):
    close(begun, shards=2, min_crowd=4)
    public, head = begun / "authority.pub", read_roster(begun / "roster.json").draw.head
    assert read_chain(public) == head
    public.write_text(public.read_text().replace(head.hex(), bytes(32).hex()))
    with pytest.raises(ConfigError, match="draws its groups from another chain"):
        verify(begun / "roster.json", authority=public)
    for wrong in ("ab", "x" * 64, f"{head.hex()}\nf2ed-chain: {head.hex()}"):
        public.write_text(public.read_text().partition("f2ed-chain: ")[0] + f"f2ed-chain: {wrong}\n")
        with pytest.raises(ConfigError, match="names no one chain below the key"):
            verify(begun / "roster.json", authority=public)


def test_from_keys_to_a_roster_that_verifies(begun, capsys):
    close(begun, shards=2, min_crowd=4)
    verify(begun / "roster.json", authority=begun / "authority.pub")
    assert "8 clients in 2 shards" in capsys.readouterr().out
    roster = read_roster(begun / "roster.json")
    assert [len(shard) for shard in roster.assignment(0).shards] == [4, 4]


def test_a_signing_counts_up_and_reveals_a_link_only_if_it_makes_groups(begun):
    signings = [{"shards": 2}, {"key_rounds": 9}, {"shards": 1}, {"every": 3}, {}]
    rosters = []
    for settings in signings:
        close(begun, **settings)
        rosters.append(read_roster(begun / "roster.json"))
    remove(begun / "roster.json", ["clinic_3"])
    close(begun)
    rosters.append(read_roster(begun / "roster.json"))
    close(begun, accept=["leak"], shards=1)
    rosters.append(read_roster(begun / "roster.json"))
    assert [roster.serial for roster in rosters] == [1, 2, 3, 4, 5, 6, 7]
    assert [roster.draw.link for roster in rosters] == [1, 1, 1, 1, 1, 1, 2]
    assert [one.seed == other.seed for one, other in pairwise(rosters)] == [True, True, True, True, True, False]
    for one, other in pairwise(rosters):
        check_step(one, other)


def test_shards_per_round_are_signed_kept_and_taken_back(begun, capsys):
    close(begun, shards=2, min_crowd=4, shards_per_round=1)
    assert "shards_per_round: 1\n" in capsys.readouterr().out
    close(begun, key_rounds=9)
    assert read_roster(begun / "roster.json").shards_per_round == 1
    close(begun, shards_per_round=0)
    assert read_roster(begun / "roster.json").round_shards == 2


def test_a_signing_keeps_what_is_left_out_and_prints_what_changes(begun, capsys):
    close(begun, shards=1, min_crowd=3, mode="dropout-tolerant", colluders=2, key_rounds=7, group_size=4, every=3)
    said = capsys.readouterr().out
    assert "+ client 7  clinic_7" in said
    assert "colluders: 2" in said
    first = read_roster(begun / "roster.json")
    assert (first.mode, first.colluders, first.key_rounds) == ("dropout-tolerant", 2, 7)
    close(begun, key_rounds=8)
    said = capsys.readouterr().out
    second = read_roster(begun / "roster.json")
    changed = msgspec.structs.replace(first, serial=2, key_rounds=8, previous=first.digest, signature=second.signature)
    assert second == changed
    assert (second.skip, second.first_round) == (14, 0)
    assert "  key_rounds: 7 → 8\n" in said
    assert [line for line in said.splitlines() if line.startswith("  ")] == ["  key_rounds: 7 → 8"]
    remove(begun / "roster.json", ["clinic_0"])
    key(begun / "new.key")
    add(begun / "roster.json", [begun / "new.pub"])
    capsys.readouterr()
    close(begun, every=0, mode="auto", colluders=1, first_round=41, skip=5, accept=["leak"], group_size=4)
    said = capsys.readouterr().out
    third = read_roster(begun / "roster.json")
    assert third.schedule == Fixed()
    for line in (
        "  + client 8  new",
        "  - client 0  clinic_0, whose id, name and key are never used again",
        "  schedule: batches 4 3 → fixed",
        "  mode: dropout-tolerant → all-or-nothing",
        "  colluders: 2 → 1",
        "  first_round: 0 → 41",
        "  skip: 14 → 5",
        "  accepted: none → leak",
        "  groups: 1 kept, 1 new, 1 ended",
        "  Link 2 of the chain is revealed: a new seed.",
    ):
        assert line in said.splitlines()
    verify(begun / "roster.json", authority=begun / "authority.pub")
    assert "mode all-or-nothing, at most 1 colluders" in capsys.readouterr().out


def test_ids_names_and_keys_of_clients_that_left_are_never_used_again(begun):
    close(begun, shards=2, min_crowd=3)
    remove(begun / "roster.json", ["clinic_7", "clinic_2"])
    close(begun, accept=["leak"], regroup="all")
    roster = read_roster(begun / "roster.json")
    assert {(left.id, left.name, left.until) for left in roster.gone} == {(7, "clinic_7", 2), (2, "clinic_2", 2)}
    with pytest.raises(ConfigError, match="the name clinic_7 belongs to a client that left"):
        add(begun / "roster.json", [begun / "clinic_7.pub"])
    (begun / "again.pub").write_bytes((begun / "clinic_2.pub").read_bytes())
    with pytest.raises(ConfigError, match=r"the key \w+ belongs to a client that left"):
        add(begun / "roster.json", [begun / "again.pub"])
    key(begun / "fresh.key")
    add(begun / "roster.json", [begun / "fresh.pub"])
    close(begun)
    entry = read_roster(begun / "roster.json").clients[-1]
    assert (entry.id, entry.name, entry.since) == (8, "fresh", 3)  # not 7, although 6 is the largest that is left
    forged = msgspec.structs.replace(entry, id=7)
    with pytest.raises(ValueError, match="the id 7 belongs to a client that left"):
        msgspec.structs.replace(roster, clients=(*roster.clients, forged))


def test_a_client_that_was_never_signed_for_may_be_added_again(begun):
    remove(begun / "roster.json", ["clinic_7"])
    add(begun / "roster.json", [begun / "clinic_7.pub"])
    close(begun, shards=2)
    assert read_roster(begun / "roster.json").gone == ()


def test_a_roster_of_the_older_format_is_refused_until_it_is_signed_again(begun, capsys):
    path = begun / "roster.json"
    close(begun, shards=2)
    old = json.loads(path.read_bytes())
    kept = ("name", "authority", "serial", "shards", "min_crowd", "schedule", "seed", "signature")
    clients = [{name: entry[name] for name in ("id", "name", "key")} for entry in old["clients"]]
    old = {name: old[name] for name in kept} | {"clients": clients}
    path.write_text(json.dumps(old))
    with pytest.raises(ConfigError, match=r"an older format.*f2ed roster sign"):
        verify(path, authority=begun / "authority.pub")
    close(begun)
    verify(path, authority=begun / "authority.pub")
    roster = read_roster(path)
    assert (roster.serial, roster.mode, roster.colluders, roster.key_rounds) == (2, "all-or-nothing", 1, 50)
    assert {entry.since for entry in roster.clients} == {1}
    assert "+ client" not in capsys.readouterr().out.partition("serial 1.")[2]


def test_a_roster_of_the_second_format_keeps_its_settings_when_it_is_signed_again(begun):
    path = begun / "roster.json"
    close(begun, shards=2, mode="dropout-tolerant", min_crowd=3, key_rounds=7)
    old = json.loads(path.read_bytes())
    for name in set(old) - {
        *("name", "authority", "serial", "clients", "gone", "shards", "min_crowd", "schedule", "mode", "colluders"),
        *("key_rounds", "first_round", "skip", "seed", "signature"),
    }:
        del old[name]
    for entry in old["clients"]:
        del entry["weight"]
    path.write_text(json.dumps(old | {"format": 2}))
    with pytest.raises(ConfigError, match=r"an older format \(2; this is 3\).*f2ed roster sign"):
        verify(path, authority=begun / "authority.pub")
    close(begun)
    verify(path, authority=begun / "authority.pub")
    roster = read_roster(path)
    assert (roster.serial, roster.mode, roster.key_rounds, roster.previous) == (2, "dropout-tolerant", 7, b"")


def test_each_serial_names_the_one_before_also_through_a_draft(begun):
    path = begun / "roster.json"
    close(begun, shards=2)
    first = read_roster(path)
    close(begun, key_rounds=9)
    second = read_roster(path)
    remove(path, ["clinic_3"])
    remove(path, ["clinic_4"])
    close(begun, shards=1, accept=["leak"], regroup="all")
    third = read_roster(path)
    assert [first.previous, second.previous, third.previous] == [b"", first.digest, second.digest]


def test_a_roster_that_was_edited_after_it_was_signed_is_not_signed_again(begun):
    path = begun / "roster.json"
    close(begun, shards=2)
    path.write_text(path.read_text().replace('"key_rounds": 50', '"key_rounds": 51'))
    with pytest.raises(ConfigError, match="was changed after it was signed"):
        close(begun)


def test_the_agreement_is_hybrid_unless_the_authority_signs_otherwise(begun, capsys):
    close(begun)
    assert read_roster(begun / "roster.json").protocol.agreement == "x25519+mlkem768"
    capsys.readouterr()
    close(begun, agreement="x25519")
    assert read_roster(begun / "roster.json").protocol.agreement == "x25519"
    assert "agreement" in capsys.readouterr().out
    close(begun)
    assert read_roster(begun / "roster.json").agreement == "x25519"


def test_a_draft_does_not_verify(begun):
    with pytest.raises(ConfigError, match="nobody signed it"):
        verify(begun / "roster.json", authority=begun / "authority.pub")


def test_a_change_after_signing_takes_the_signature_away(begun):
    close(begun, shards=2)
    remove(begun / "roster.json", ["clinic_3"])
    with pytest.raises(ConfigError, match="nobody signed it"):
        verify(begun / "roster.json", authority=begun / "authority.pub")
    with pytest.raises(ConfigError, match="is called nobody"):
        remove(begun / "roster.json", ["nobody"])


def test_numbers_that_guarantee_nothing_are_not_signed_without_saying_so(begun):
    with pytest.raises(ConfigError, match="accept-no-guarantee"):
        close(begun, shards=2, malicious=1)
    close(begun, shards=2, malicious=1, accept_no_guarantee=True)
    with pytest.raises(ConfigError, match="fewer than 5"):
        close(begun, shards=2, min_crowd=5, accept_no_guarantee=True)


def test_another_key_cannot_sign(begun):
    with pytest.raises(ConfigError, match="not the private key of the roster's authority"):
        sign(begun / "roster.json", authority=begun / "clinic_0.key", shards=2, accept=["unpinned-app"])


def test_one_key_cannot_stand_for_two(begun):
    (begun / "again.pub").write_bytes((begun / "clinic_0.pub").read_bytes())
    with pytest.raises(ConfigError, match="is on the roster twice"):
        add(begun / "roster.json", [begun / "again.pub"])


def test_no_key_is_overwritten(begun):
    with pytest.raises(ConfigError, match="exists already"):
        key(begun / "clinic_0.key")


def test_private_keys_are_for_their_owner_alone(begun):
    for path in [*begun.glob("*.key")]:
        assert path.stat().st_mode & 0o077 == 0


def test_a_key_made_by_openssl_will_do(tmp_path):
    path = tmp_path / "own.key"
    made = subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path], check=False)  # noqa: S607
    if made.returncode:
        pytest.skip("there is no openssl here")
    from f2ed.deployment.keyfiles import read_private

    path.chmod(0o600)
    assert len(read_private(path)) == 32


def test_the_certificate_is_trusted_by_who_trusts_the_ca(tmp_path):
    certs(tmp_path / "tls", host=("127.0.0.1", "superlink.example.org"), nodes=2)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls" / "server.pem", tmp_path / "tls" / "server.key")
    for name, trusted in (("superlink.example.org", True), ("127.0.0.1", True), ("elsewhere.example.org", False)):
        client = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.crt"))
        assert _shakes_hands(client, server, name) is trusted
    assert (tmp_path / "tls" / "node_1").stat().st_mode & 0o077 == 0
    assert (tmp_path / "tls" / "node_1.pub").read_text().startswith("ecdsa-sha2-nistp384 ")


def test_the_command_line_says_what_is_wrong_in_one_sentence(tmp_path):
    missing = tmp_path / "none.json"
    command = [sys.executable, "-m", "f2ed.cli", "roster", "verify", str(missing), "--authority", str(missing)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("f2ed: the roster")
    assert "Traceback" not in ended.stderr


def _shakes_hands(client, server, name):
    """Let two ends talk through memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=name)
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        for end in (one, other):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return one.version() is not None


def test_groups_are_resharded_whole(begun):
    close(begun, shards=2, min_crowd=4, group_size=2, every=3, colluders=0)
    roster = read_roster(begun / "roster.json")
    assert roster.schedule == Batches(2, k=3)
    company = [{frozenset(shard) for shard in roster.assignment(turn).shards} for turn in range(0, 60, 3)]
    assert len(set(map(frozenset, company))) > 1
    for client in range(8):
        met = [next(shard for shard in shards if client in shard) for shards in company]
        assert len(frozenset.intersection(*met)) >= 2


def test_single_clients_are_resharded_only_where_the_risk_is_accepted(begun):
    with pytest.raises(ConfigError, match="--accept leak"):
        close(begun, shards=2, group_size=1, every=3)
    close(begun, shards=2, group_size=1, every=3, accept=["leak"])
    assert read_roster(begun / "roster.json").schedule == EveryKRounds(3)


def test_the_chain_is_drawn_before_any_key_and_stays_with_the_authority(begun):
    head = read_roster(begun / "roster.json").draw.head
    secret = begun / "authority.chain"
    assert secret.stat().st_mode & 0o077 == 0
    close(begun, shards=2)
    roster = read_roster(begun / "roster.json")
    assert (roster.draw.head, roster.draw.link) == (head, 1)
    kept = secret.read_bytes()
    remove(begun / "roster.json", ["clinic_3"])
    for content, why in ((b"00" * 32, "not the secret of the roster's chain"), (b"00", "64 hexadecimal digits")):
        secret.write_bytes(content)
        with pytest.raises(ConfigError, match=why):
            close(begun, accept=["leak"], regroup="all")
    secret.chmod(0o644)
    with pytest.raises(ConfigError, match="may be read by others"):
        close(begun)
    secret.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        close(begun)
    secret.write_bytes(kept)
    secret.chmod(0o600)
    close(begun)


def test_a_signing_says_who_waits_and_what_each_way_out_would_reveal(begun, capsys):
    close(begun, shards=2)
    assert "    0.00 → 0.25  clinic_0\n" in capsys.readouterr().out
    remove(begun / "roster.json", ["clinic_3"])
    capsys.readouterr()
    close(begun)
    said = capsys.readouterr().out
    assert "groups: 1 kept, 0 new, 1 ended" in said
    assert "  shards: 2 → 1\n" in said
    assert "    0.25 → 0.25  clinic_3, who left\n" in said
    assert "3 clients wait and take no part" in said
    verify(begun / "roster.json", authority=begun / "authority.pub")
    assert "Clients that wait for a group: " in capsys.readouterr().out
    assert "groups of all who wait: 3 clients, too few for a group of 4" in said
    assert "new groups for everyone: the sums over all groups that ever were determine the update of clinic_3" in said
    assert "groups of those who never were in one: 0 clients, too few" in said
    with pytest.raises(ConfigError, match=r"clinic_3, who left exactly.*--accept leak"):
        close(begun, regroup="all")
    close(begun, regroup="all", accept=["leak"])
    assert "→ 1.00  clinic_3, who left\n" in capsys.readouterr().out


def test_a_site_whose_clock_was_ahead_says_so_in_one_command(begun, capsys):
    close(begun, shards=2, min_crowd=3)
    roster, state = read_roster(begun / "roster.json"), begun / "a.state"
    with pytest.raises(ConfigError, match="is not a folder; name the one that holds this node's state"):
        reset(state=state)
    Pin(state / "x.pin").follow([roster], day="9000-01-01" if not roster.expires else roster.expires)
    reset(state=state)
    assert "for the latest day that it has seen, in clinics" in capsys.readouterr().out
    reset(state=state)
    assert "Nothing to do" in capsys.readouterr().out
