"""What a node takes from its own settings and its roster alone: each has to arrive where it protects something."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.identity import followed_roster, key_store, roster_from
from f2ed.deployment.layout_pin import LayoutPin
from f2ed.deployment.roster import read_roster
from f2ed.deployment.roster.terms import derived_terms
from f2ed.deployment.round_mark import RoundMark
from f2ed.deployment.state_store import Kept
from f2ed.deployment.survivor_sets import SurvivorSets
from f2ed.deployment.transparency import LogFile
from f2ed.protocol.dp import Budget
from tests.deployment.test_identity import identified, node_config

__all__ = ["node_config"]


def test_a_node_has_no_budget_unless_it_is_given_one(node_config):
    assert identified(node_config).budget is None


def test_a_budget_is_kept_beside_the_key(node_config, tmp_path):
    node_config["f2ed-dp-epsilon"] = "2.5"
    assert identified(node_config).budget == Budget(tmp_path / "mine.spent.json", 2.5, 1e-5)


def test_a_budget_is_kept_where_the_settings_say(node_config, tmp_path):
    node_config |= {"f2ed-dp-epsilon": 1, "f2ed-delta": 1e-6, "f2ed-ledger": str(tmp_path / "spent")}
    assert identified(node_config).budget == Budget(tmp_path / "spent", 1.0, 1e-6)


@pytest.mark.parametrize("name", ["f2ed-delta", "f2ed-ledger"])
def test_part_of_a_budget_is_refused(node_config, name):
    node_config[name] = 0.5
    with pytest.raises(ConfigError, match=f"{name} is in the --node-config without f2ed-dp-epsilon"):
        identified(node_config)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("f2ed-dp-epsilon", "much"),
        ("f2ed-dp-epsilon", -1),
        ("f2ed-dp-epsilon", "inf"),
        ("f2ed-delta", 1.0),
        ("f2ed-delta", "x"),
        ("f2ed-noise-multiplier", "loud"),
        ("f2ed-noise-multiplier", -0.5),
    ],
)
def test_a_number_that_bounds_nothing_is_refused(node_config, name, value):
    node_config |= {"f2ed-dp-epsilon": 1, name: value}
    with pytest.raises(ConfigError, match=f"{name} is .* in the --node-config"):
        identified(node_config)


def test_the_noise_that_a_node_asks_for_is_what_the_protocol_checks(node_config):
    assert identified(node_config).member(0).noise == 0
    node_config["f2ed-noise-multiplier"] = "0.75"
    assert identified(node_config).member(0).noise == 0.75


def test_everything_that_outlives_a_run_is_kept_for_this_federation(node_config, tmp_path):
    me = identified(node_config)
    folder, roster = tmp_path / "mine.state", me.roster
    assert me.rounds == RoundMark(folder / f"{roster.lineage}.rounds", roster.first_round, roster.skip)
    assert me.layouts == LayoutPin(folder / f"{roster.lineage}.layout", roster.digest)
    assert me.survivors == SurvivorSets(folder / f"{roster.lineage}.survivors", least=3)
    log = LogFile(folder / f"{roster.lineage}.log", 2, me.signing_key, roster.lineage, roster.digest, roster.serial)
    assert me.log == log


def test_the_protocol_derives_terms_and_groups_from_the_roster(node_config):
    me = identified(node_config)
    member = me.member(7)
    assert not member.clear, "an update never leaves without masks"
    assert member.terms(3, 10) == derived_terms(me.roster, 7, 2, 3, 10)
    assert member.shard(3) == me.roster.shard_of(2, 3)
    assert 2 in member.shard(3)


def test_simulated_nodes_take_the_terms_that_they_are_told_and_send_in_the_clear_if_asked():
    member = identified({"partition-id": 4}, {"f2ed-roster": "test:6/2"}, simulated=True).member(0)
    assert member.clear
    assert (member.terms, member.survivors) == (None, None)


def test_a_simulated_node_without_a_place_is_refused():
    with pytest.raises(Refusal, match="partition -1 is not among the 6 clients"):
        identified({}, {"f2ed-roster": "test:6/2"}, simulated=True)


def test_a_test_roster_may_be_named_by_the_environment(monkeypatch):
    monkeypatch.setenv("F2ED_ROSTER", "test:6/2")
    assert identified({"partition-id": 1}, simulated=True).id == 1
    monkeypatch.delenv("F2ED_ROSTER")
    with pytest.raises(Refusal, match="without f2ed-key, f2ed-roster, f2ed-authority in its"):
        identified({"partition-id": 1}, simulated=True)


@pytest.mark.parametrize(
    ("where", "clients", "shards", "mode"),
    [
        ("test:12", 12, 3, "all-or-nothing"),
        ("test:3", 3, 1, "all-or-nothing"),
        ("test:12/2", 12, 2, "all-or-nothing"),
        ("test:12/2/dropout-tolerant", 12, 2, "dropout-tolerant"),
    ],
)
def test_a_test_roster_is_what_its_name_says(where, clients, shards, mode):
    roster = roster_from(where)
    assert (len(roster.clients), roster.shards, roster.mode, roster.min_crowd) == (clients, shards, mode, 3)


def test_another_head_of_the_chain_is_refused(node_config):
    """The authority's public file names the chain that seeds come from; a roster of another chain was ground."""
    path = Path(node_config["f2ed-authority"])
    path.write_text(path.read_text("utf-8").split()[0] + "\n" + "ab" * 32 + "\n", "utf-8")
    with pytest.raises((Refusal, ConfigError), match="chain"):
        followed_roster(node_config)


def test_keys_are_erased_the_day_after_the_last_and_not_on_it(node_config, tmp_path):
    roster = read_roster(Path(node_config["f2ed-roster"]))

    def erased(expires):
        changed = msgspec.structs.replace(roster, expires=expires)
        with key_store(roster, tmp_path / "s", tmp_path / "keys").open("job") as desk:
            desk.write(Kept(b"state", b"model"))
        with key_store(changed, tmp_path / "s", tmp_path / "keys").open("job") as desk:
            return desk.read() != Kept(b"state", b"model")

    assert not erased("9999-12-31")
    assert not erased(datetime.now(UTC).date().isoformat())
    assert erased("2000-01-01")


# Sampling: the roster's seed draws some shards for each round, and nobody else can.

SAMPLED = "test:24/8/all-or-nothing/3"


def test_each_round_takes_some_of_the_shards_and_every_shard_has_its_turn():
    roster = roster_from(SAMPLED)
    whole = roster.whole_assignment(0)
    drawn = [roster.assignment(number) for number in range(40)]
    assert all(len(each.shards) == 3 and set(each.shards) <= set(whole.shards) for each in drawn)
    assert [each.epoch for each in drawn] == list(range(40))
    assert {each.roster for each in drawn} == {whole.roster}
    assert {shard for each in drawn for shard in each.shards} == set(whole.shards)


def test_the_draw_depends_on_the_seed_and_on_the_round():
    roster = roster_from(SAMPLED)
    other = msgspec.structs.replace(roster, seed=bytes(32))
    drawn = [[each.assignment(number).shards for number in range(10)] for each in (roster, other)]
    assert len(set(drawn[0])) > 1
    assert [set(shards) for shards in drawn[0]] != [set(shards) for shards in drawn[1]]


def test_a_client_that_was_not_drawn_has_no_place_in_the_round():
    roster = roster_from(SAMPLED)
    inside = {client for shard in roster.assignment(5).shards for client in shard}
    outside = min(set(range(24)) - inside)
    assert all(client in roster.shard_of(client, 5) for client in inside)
    with pytest.raises(Refusal, match="round 5"):
        roster.shard_of(outside, 5)
