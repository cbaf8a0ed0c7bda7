"""What the opened sums of many rounds reveal is forecast at the start and measured in every round."""

import msgspec
import numpy as np

from f2ed.deployment.journal import round_line
from f2ed.deployment.keyfiles import read_private, read_secret
from f2ed.deployment.opened import OpenedMeter, OpenedSum
from f2ed.deployment.pin import accept_weaker
from f2ed.deployment.roster import Gone, revised, signed, write_roster
from f2ed.flower.checkpoint import load
from f2ed.guarantees import determined, exposure
from f2ed.protocol.sharding import Batches, EveryRound
from f2ed.records import read
from tests.flower.fake_grid import (
    FakeGrid,
    Node,
    model,
    moved_by,
    server,
    user_app,
    vector,
)

MODES = ["all-or-nothing", "dropout-tolerant"]


def what_the_sums_reveal(roster, rounds):
    return exposure(len(roster.clients), [roster.assignment(turn).shards for turn in range(rounds)])


def test_a_schedule_that_exposes_clients_is_warned_of_at_the_start_and_in_its_rounds(federation, tmp_path, caplog):
    grid, _, roster = federation(count=12, shards=4, signed={"schedule": EveryRound()})
    leader = server(roster, records=tmp_path / "run.jsonl")
    leader.start(grid, model(), num_rounds=12)
    true, last = what_the_sums_reveal(roster, 12), leader.records[-1]
    assert true.exposed == 12
    assert "determine all 12 clients individually" in caplog.text
    assert tuple(each.leak.rank for each in leader.records) == true.ranks
    assert (last.leak.exposed, last.leak.first) == (true.exposed, true.first)
    log = read(tmp_path / "run.jsonl")
    exposing = msgspec.structs.replace(last, leak=msgspec.structs.replace(last.leak, exposed=5))
    assert "THE ROUNDS SO FAR EXPOSE 5 CLIENTS" in round_line(log.header, exposing)


def test_fixed_shards_expose_nobody(federation, caplog):
    grid, _, roster = federation(count=6)
    leader = server(roster)
    leader.start(grid, model(), num_rounds=4)
    assert "determine no single client" in caplog.text
    assert {(each.leak.rank, each.leak.exposed, each.leak.first) for each in leader.records} == {(2, 0, None)}
    assert "EXPOSE" not in caplog.text


def test_batches_stay_together_in_a_deployment(federation):
    grid, _, roster = federation(count=8, signed={"schedule": Batches(2), "group_size": 2})
    leader = server(roster, schedule="batches")
    result = leader.start(grid, model(), num_rounds=8)
    np.testing.assert_allclose(
        vector(result.arrays), moved_by([roster.assignment(turn).shards for turn in range(8)]), atol=2e-5
    )
    assert tuple(each.leak.rank for each in leader.records) == what_the_sums_reveal(roster, 8).ranks
    assert leader.records[-1].leak.exposed == 0


def test_dropouts_before_a_checkpoint_are_remembered(federation, tmp_path):
    def lead(run_id, rounds, *, missing=None):
        grid, nodes, _ = federation(count=10, run_id=run_id, signed=tolerant)
        if missing is not None:
            nodes[missing].connected = False
        leader = server(
            roster, checkpoint=tmp_path / "model.checkpoint", mode="dropout-tolerant", min_crowd=2, wait_for_nodes=0
        )
        leader.start(grid, model(), num_rounds=rounds)
        return leader.records[-1].leak

    tolerant = {"mode": "dropout-tolerant"}
    _, _, roster = federation(count=10, signed=tolerant)
    missing = roster.assignment(0).shards[0][0]
    # A sum with the client and one without it, one of them before the restart, give the client away.
    assert lead(1, 1, missing=missing).exposed == 0
    assert lead(2, 2).exposed == 1


def test_a_dropout_closes_its_group_and_reveals_nobody(federation, tmp_path):
    """In each run another client is missing; without groups the difference of two sums would be one of them."""

    def lead(run_id, rounds, missing):
        grid, nodes, _ = federation(run_id=run_id, **settings)
        nodes[missing].connected = False
        leader = server(roster, checkpoint=tmp_path / "model.checkpoint", mode="dropout-tolerant", wait_for_nodes=0)
        leader.start(grid, model(), num_rounds=rounds)
        return leader.records[-1]

    settings = {"count": 16, "shards": 1, "signed": {"mode": "dropout-tolerant", "group_size": 4}}
    _, _, roster = federation(**settings)
    for run, group in enumerate(roster.groups, 1):
        record = lead(run, run, group.members[run % 4])
        assert (record.crowd, record.leak.exposed) == (12, 0)
        assert len(record.dropped) == 4
    assert record.leak.crowd == 4


def test_rounds_before_a_checkpoint_count(federation, tmp_path):
    path = tmp_path / "model.checkpoint"
    grid, _, roster = federation(count=6, run_id=1, signed={"schedule": EveryRound()})
    server(roster, checkpoint=path).start(grid, model(), num_rounds=3)
    grid, _, _ = federation(count=6, run_id=2)
    leader = server(roster, checkpoint=path)
    leader.start(grid, model(), num_rounds=4)
    assert leader.records[0].leak.rank == what_the_sums_reveal(roster, 4).ranks[-1]


def test_a_roster_that_is_signed_again_does_not_make_the_meter_forget(federation, tmp_path):
    """The model goes on under other groups; checkpoint and roster remember what the first ones revealed."""
    path = tmp_path / "model.checkpoint"
    grid, _, first = federation(count=8, run_id=1)
    server(first, checkpoint=path).start(grid, model(), num_rounds=2)
    assert {len(shard) for shard in first.assignment(0).shards} == {4}
    roster = regrouped_without(3, tmp_path, first)
    nodes = [Node(client, user_app(), federation.settings[client]) for client in range(8) if client != 3]
    leader = server(roster, checkpoint=path)
    leader.start(FakeGrid(nodes, 2), model(), num_rounds=3)
    (record,) = leader.records
    rows = [dict.fromkeys(shard, 1) for each in (first, roster) for shard in each.assignment(0).shards]
    assert 3 in determined(rows)
    assert (record.leak.exposed, record.leak.first) == (len(determined(rows)), 3)
    forgetful = msgspec.structs.replace(roster, history=())
    sums = load(path, roster=roster.name, like=model()).history.opened
    assert OpenedMeter(forgetful, sums, 3).reading() == record.leak
    assert OpenedMeter(roster, (), 0).observe([each for each in sums if each.after == 3]).exposed > 0


def regrouped_without(client, tmp_path, first):
    """Let a client leave, and the others go on in new groups, which reveals it."""
    entry = first.clients[client]
    draft = revised(
        first,
        clients=tuple(each for each in first.clients if each != entry),
        gone=(Gone(entry.id, entry.name, entry.key),),
        accepted=(*first.accepted, "leak"),
    )
    authority, chain = read_private(tmp_path / "authority.key"), read_secret(tmp_path / "authority.chain")
    roster = signed(draft, authority, shards=2, min_crowd=3, regroup="all", group_size=3, seed=chain)
    write_roster(tmp_path / "roster.json", roster)
    for key in tmp_path.glob("client_*.key"):
        accept_weaker(key.with_suffix(".state"), roster.digest)
    return roster


def test_a_weight_that_changes_between_serials_counts(federation):
    _, _, roster = federation(count=6)
    members = roster.assignment(0).shards[0]
    meter = OpenedMeter(roster, (), 0)
    assert meter.observe([OpenedSum(1, members, (1, 1, 1))]).exposed == 0
    assert meter.observe([OpenedSum(2, members, (1, 2, 1))]).exposed == 1


def test_each_sum_is_kept_once_and_none_after_everyone_is_determined(federation):
    _, _, roster = federation(count=6)
    members = roster.assignment(0).shards[0]
    meter = OpenedMeter(roster, (), 0)
    for after in range(1, 9):
        meter.observe([OpenedSum(after, members, (1, 1, 1))])
    assert meter.sums == (OpenedSum(1, members, (1, 1, 1)),)
    assert meter.last is None
    meter.observe([OpenedSum(9, (client,), (1,)) for client in range(6)])
    assert (meter.last, len(meter.sums)) == (9, 7)
    meter.observe([OpenedSum(10, (0, 1), (1, 1))])
    assert len(meter.sums) == 7
