"""Rounds only go forward, over all runs: the server can neither go back nor jump to the shards that it likes."""

import msgspec
import numpy as np
import pytest

from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.roster import signed, write_roster
from f2ed.guarantees import exposure
from f2ed.protocol.secagg.messages import AskKey, SignedKey
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Advertisement, Invite
from f2ed.protocol.sharding import EveryKRounds, EveryRound
from tests.flower.fake_grid import Node, model, moved_by, opened, server, user_app, vector
from tests.flower.lying_server import LyingServer


def mark_of(tmp_path, client):
    (path,) = (tmp_path / f"client_{client}.state").glob("*.rounds")
    return path


def marks(tmp_path, count):
    return [msgspec.json.decode(mark_of(tmp_path, client).read_bytes())["round"] for client in range(count)]


def test_another_run_does_not_make_old_rounds_valid_again(tmp_path):
    lying = LyingServer(tmp_path, 4)
    for round_ in range(3):
        assert len(lying.all_or_nothing(lying.terms(round_))) == 4
    lying.nodes = [Node(client, user_app(), lying.settings[client]) for client in range(4)]  # they were restarted, too
    for round_ in (0, 1, 2):
        assert lying.all_or_nothing(lying.terms(round_, run=8), run=8) == {}
        assert f"round {round_} is not after round 2" in lying.refusals[0]
    assert len(lying.all_or_nothing(lying.terms(3, run=8), run=8)) == 4
    assert marks(tmp_path, 4) == [3, 3, 3, 3]


def test_another_serial_of_the_roster_does_not_make_old_rounds_valid_again(tmp_path):
    lying = LyingServer(tmp_path, 4)
    assert len(lying.all_or_nothing(lying.terms(5))) == 4
    again(tmp_path, lying)
    assert lying.roster.serial == 2
    assert lying.all_or_nothing(lying.terms(5)) == {}
    assert len(lying.all_or_nothing(lying.terms(6))) == 4


def again(tmp_path, lying, **settings):
    """Let the authority sign once more."""
    authority, roster = read_private(tmp_path / "authority.key"), lying.roster
    lying.roster = signed(roster, authority, **{"shards": 1, "min_crowd": 3, "seed": roster.seed} | settings)
    write_roster(tmp_path / "roster.json", lying.roster)


@pytest.mark.parametrize("size", [4, 11])
def test_the_server_cannot_jump_to_the_assignment_that_it_likes(tmp_path, size):
    """With resharding it would look for the round that surrounds a victim; only a few rounds are within its reach."""
    lying = LyingServer(tmp_path, size, schedule=EveryKRounds(3), key_rounds=5)
    request, kind = (AskKey, SignedKey) if size == 4 else (Invite, Advertisement)

    def asks(round_):
        terms = lying.terms(round_, epoch=round_ // 3)
        return len(lying.ask_all(dict.fromkeys(terms.members, request(terms)), kind))

    for round_ in (10, 11, 100, 10**6):
        assert asks(round_) == 0
        assert f"round {round_} is beyond round 9, the latest one" in lying.refusals[0]
    assert asks(9) == size


def test_steps_are_bounded_from_the_last_round_and_a_refusal_uses_up_nothing(tmp_path):
    lying = LyingServer(tmp_path, 4, skip=4)
    assert len(lying.all_or_nothing(lying.terms(3))) == 4
    assert lying.all_or_nothing(lying.terms(7, colluders=0)) == {}
    assert lying.all_or_nothing(lying.terms(8)) == {}
    assert "round 8 is beyond round 7, the latest one that the roster allows after round 3" in lying.refusals[0]
    assert len(lying.all_or_nothing(lying.terms(4))) == 4
    assert lying.all_or_nothing(lying.terms(3)) == {}


def test_a_node_that_was_away_or_is_new_comes_back_when_the_authority_signs_a_later_first_round(tmp_path):
    lying = LyingServer(tmp_path, 4, skip=2)
    for path in (tmp_path / "client_0.state", tmp_path / "client_1.state"):
        path.mkdir(mode=0o700)
        (path / f"{lying.roster.lineage}.rounds").write_bytes(b'{"round":%d}' % (40 if "0" in path.name else 2))
    assert lying.all_or_nothing(lying.terms(41)) == {}
    assert "round 41 is beyond round 4, the latest one that the roster allows after round 2" in lying.refusals[1]
    assert "round 41 is beyond round 1, the latest one that the roster allows after round -1" in lying.refusals[2]
    assert 0 not in lying.refusals
    again(tmp_path, lying, first_round=40, skip=2)
    assert lying.all_or_nothing(lying.terms(39)) == {}
    assert "round 39 is before round 40, the first one that the roster was signed for" in lying.refusals[1]
    assert len(lying.all_or_nothing(lying.terms(41))) == 4


def test_a_new_run_goes_on_after_the_last_round_of_the_one_before(federation, tmp_path):
    """Without a checkpoint the model starts over; the rounds of the protocol do not."""
    for run_id, before in ((1, -1), (2, 2), (3, 5)):
        grid, _, roster = federation(run_id=run_id, signed={"key_rounds": 2, "skip": 3})
        leader = server(roster)
        result = leader.start(grid, model(), num_rounds=3)
        assert [(each.round, each.dropped, each.excluded) for each in leader.records] == [
            (0, {}, {}),
            (1, {}, {}),
            (2, {}, {}),
        ]
        assert marks(tmp_path, 6) == [before + 3] * 6
        np.testing.assert_allclose(vector(result.arrays), moved_by([roster.assignment(0).shards] * 3), atol=8e-6)


def test_a_server_that_died_in_a_round_skips_its_number(federation, tmp_path):
    """Its checkpoint is one round behind the nodes."""
    path = tmp_path / "model.checkpoint"
    grid, _, roster = federation(run_id=1)
    server(roster, checkpoint=path).start(grid, model(), num_rounds=1)
    before = path.read_bytes()
    grid, _, roster = federation(run_id=2)
    server(roster, checkpoint=path).start(grid, model(), num_rounds=2)
    path.write_bytes(before)
    grid, _, roster = federation(run_id=3)
    leader = server(roster, checkpoint=path)
    result = leader.start(grid, model(), num_rounds=3)
    assert [each.round for each in leader.records] == [1, 2]
    assert not any(each.dropped for each in leader.records)
    assert marks(tmp_path, 6) == [3] * 6
    np.testing.assert_allclose(vector(result.arrays), moved_by([roster.assignment(0).shards] * 3), atol=8e-6)


def test_a_client_that_missed_rounds_joins_again(federation, tmp_path):
    grid, nodes, roster = federation(run_id=1)
    away = roster.assignment(0).shards[0][0]
    nodes[away].connected = False
    server(roster, wait_for_nodes=0).start(grid, model(), num_rounds=2)
    grid, nodes, roster = federation(run_id=2)
    leader = server(roster)
    leader.start(grid, model(), num_rounds=1)
    assert opened(leader, 0) == [0, 1]
    assert marks(tmp_path, 6) == [2] * 6


@pytest.mark.parametrize("claim", [5, 10**6])
def test_a_client_that_lies_about_its_last_round_harms_its_own_shard_alone(federation, tmp_path, claim):
    grid, _, roster = federation(9, 3, run_id=1)
    server(roster).start(grid, model(), num_rounds=1)
    liar = roster.assignment(0).shards[1][0]
    mark_of(tmp_path, liar).write_bytes(b'{"round":%d}' % claim)
    grid, _, roster = federation(9, 3, run_id=2)
    leader = server(roster, malicious=1, min_shards=1)
    leader.start(grid, model(), num_rounds=2)
    assert [opened(leader, place) for place in (0, 1)] == [[0, 2], [0, 2]]
    assert "never begun twice" in leader.records[0].dropped[liar]


def test_the_leak_meter_counts_the_shards_that_were_used(federation, tmp_path):
    """In a second run the numbers of the rounds go on, and so do the assignments."""
    grid, _, roster = federation(run_id=1, signed={"schedule": EveryRound()})
    server(roster).start(grid, model(), num_rounds=2)
    grid, _, roster = federation(run_id=2)
    leader = server(roster)
    leader.start(grid, model(), num_rounds=5)
    true = exposure(6, [roster.assignment(number).shards for number in range(2, 7)])
    assert tuple(each.leak.rank for each in leader.records) == true.ranks
    assert (leader.records[-1].leak.exposed, leader.records[-1].leak.first) == (true.exposed, true.first)
    assert marks(tmp_path, 6) == [6] * 6


def test_a_damaged_mark_is_refused(tmp_path, caplog):
    lying = LyingServer(tmp_path, 4)
    assert len(lying.all_or_nothing(lying.terms(0))) == 4
    mark_of(tmp_path, 1).write_bytes(b"nonsense")
    lying.all_or_nothing(lying.terms(1))
    assert "the reason is in its own log" in lying.refusals[1]
    assert "the last round in" in caplog.text
    assert mark_of(tmp_path, 1).read_bytes() == b"nonsense"
