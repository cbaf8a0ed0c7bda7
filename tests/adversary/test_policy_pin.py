"""An old serial, a forked one, a weaker one: given to real nodes, with key files, state files and signed rosters."""

import pytest

from f2ed.deployment import identity
from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.pin import accept_weaker
from f2ed.deployment.roster import revised, signed, write_roster
from f2ed.flower import F2ed
from f2ed.protocol.secagg.messages import AskKey, SignedKey
from tests.flower.fake_grid import FakeGrid, Mean, model, opened
from tests.flower.lying_server import RUN, LyingServer

VICTIM = 2
MEMBERS = range(4)


@pytest.fixture
def server(tmp_path):
    server = LyingServer(tmp_path, 4, key_rounds=10, skip=20)
    server.folder = tmp_path
    return server


def next_serial(server, roster, **changes):
    """Return the next serial, as the authority signs it."""
    settings = {"key_rounds": roster.key_rounds, "skip": roster.skip, "min_crowd": roster.min_crowd} | {
        name: changes.pop(name) for name in ("key_rounds", "skip", "min_crowd") if name in changes
    }
    authority = read_private(server.folder / "authority.key")
    draft = revised(roster, **changes)
    return signed(draft, authority, shards=1, mode=roster.mode, colluders=roster.colluders, seed=bytes(32), **settings)


def give(server, roster, clients=MEMBERS):
    """Put a roster where the nodes look for it."""
    for client in clients:
        path = server.folder / f"roster_of_{client}.json"
        write_roster(path, roster)
        server.nodes[client].node_config["f2ed-roster"] = str(path)


def lead(server, roster, round_):
    """Lead a round by a roster; return who uploaded."""
    server.roster, server.refusals = roster, {}
    return set(server.all_or_nothing(server.terms(round_)))


def test_a_newer_serial_is_followed_and_the_old_one_is_refused_from_then_on(server):
    old = server.roster
    new = next_serial(server, old, key_rounds=9)
    assert lead(server, old, 0) == {*MEMBERS}
    give(server, new)
    assert lead(server, new, 1) == {*MEMBERS}
    give(server, old)
    assert not lead(server, old, 2)
    assert all("serial 1 of the roster 'clinics' is older than serial 2" in each for each in server.refusals.values())
    assert set(server.refusals) == {*MEMBERS}


def test_a_server_with_an_older_serial_than_the_nodes_gets_nothing(server):
    old = server.roster
    new = next_serial(server, old, key_rounds=9)
    give(server, new)
    assert not lead(server, old, 0)
    assert all("the server states job 'clinics.1/" in each for each in server.refusals.values())


def test_two_rosters_with_one_serial_open_nothing_together_and_a_node_that_sees_both_says_so(server):
    """The authority, or whoever has its key, signs twice; the settings of the second differ where no term shows it."""
    one = next_serial(server, server.roster, expires="2999-01-01")
    other = next_serial(server, server.roster, expires="2999-01-02")
    companions = [client for client in MEMBERS if client != VICTIM]
    give(server, one, companions)
    give(server, other, [VICTIM])
    for roster in (one, other):
        assert not lead(server, roster, 0)
        assert any("the server states job" in each for each in server.refusals.values())
    give(server, one, [VICTIM])
    assert not lead(server, one, 0)
    assert "two different rosters 'clinics' with serial 2" in server.refusals[VICTIM]


def test_companions_on_one_serial_and_the_victim_on_the_one_before_open_nothing(server):
    old = server.roster
    new = next_serial(server, old, key_rounds=9)
    companions = [client for client in MEMBERS if client != VICTIM]
    give(server, new, companions)
    for roster, who in ((new, [VICTIM]), (old, companions)):
        assert not lead(server, roster, 0)
        assert set(server.refusals) == {*who}
    # Told each its own terms, the members derive other contexts: the keys of one are none to the others.
    server.roster = new
    key = server.ask(0, AskKey(server.terms(0)), SignedKey)
    server.roster = old
    assert key is not None
    assert server.ask(VICTIM, AskKey(server.terms(0)), SignedKey) is not None
    assert server.roster.job(RUN) != new.job(RUN)


def test_a_weaker_serial_waits_for_the_site(server):
    weaker = next_serial(server, server.roster, skip=1000)
    assert lead(server, server.roster, 0) == {*MEMBERS}
    give(server, weaker)
    assert not lead(server, weaker, 1)
    assert all("skip 20 → 1000" in each for each in server.refusals.values())
    for client in MEMBERS:
        accept_weaker(server.folder / f"client_{client}.state", weaker.digest)
    assert lead(server, weaker, 1) == {*MEMBERS}


def test_an_expired_roster_is_followed_by_nobody(server, monkeypatch):
    roster = next_serial(server, server.roster, expires="2999-01-01")
    give(server, roster)
    assert lead(server, roster, 0) == {*MEMBERS}
    monkeypatch.setattr(identity, "_today", lambda: "2999-01-02")
    assert not lead(server, roster, 1)
    assert all("expired on 2999-01-01" in each for each in server.refusals.values())
    monkeypatch.setattr(identity, "_today", lambda: "2001-01-01")
    assert not lead(server, roster, 1)
    assert all("the clock of this node says 2001-01-01" in each for each in server.refusals.values())


def test_a_node_that_missed_serials_catches_up_from_a_folder(server):
    old = server.roster
    second = next_serial(server, old, key_rounds=9)
    third = next_serial(server, second, key_rounds=8)
    assert lead(server, old, 0) == {*MEMBERS}
    give(server, third)
    assert not lead(server, third, 1)
    assert all("does not follow serial 1" in each for each in server.refusals.values())
    folder = server.folder / "serials"
    folder.mkdir()
    for roster in (old, second, third):
        write_roster(folder / f"{roster.serial}.json", roster)
    for node in server.nodes:
        node.node_config["f2ed-roster"] = str(folder)
    assert lead(server, third, 1) == {*MEMBERS}


def test_accepted_risks_are_printed(server, caplog):
    identity._announce.cache_clear()
    lead(server, server.roster, 0)
    assert "ACCEPTED RISK unpinned-app, by the roster 'clinics', serial 1" in caplog.text


def test_signed_weights_reach_the_mean(tmp_path):
    server = LyingServer(tmp_path, 4, weights={0: 2, 1: 2, 2: 3, 3: 3}, fields={"weight_cap": 3, "accepted": ("leak",)})
    leader = F2ed(roster=server.roster, estimator=Mean(), min_crowd=3, deadline=5.0, train_deadline=5.0)
    leader.start(FakeGrid(server.nodes, 9), model(), num_rounds=1)
    assert opened(leader) == [0]
    assert server.terms().weights == (2, 2, 3, 3)
