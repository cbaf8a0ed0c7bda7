"""The leak meter remembers by the server's log what a lost checkpoint would make it forget."""

import msgspec
import pytest

from f2ed.core.errors import ConfigError
from f2ed.deployment.journal import History
from f2ed.deployment.logged import with_logged
from f2ed.deployment.opened import OpenedMeter, OpenedSum
from f2ed.deployment.transparency import log_lines, read_line, write_line
from f2ed.deployment.transparency.lines import RoundClosed, ShardOutcome
from tests.flower.fake_grid import FakeGrid, model, server
from tests.flower.test_flower_log import Deployment

TOLERANT = {"mode": "dropout-tolerant", "colluders": 0}


def lead(deployment, run, rounds=1, *, missing=None):
    """Lead a run with a checkpoint; return the last record."""
    for client, node in enumerate(deployment.nodes):
        node.connected = client != missing
    leader = server(
        deployment.roster,
        checkpoint=deployment.folder / "run.checkpoint",
        server_key=deployment.folder / "server.key",
        wait_for_nodes=0.0,
        mode="dropout-tolerant",
    )
    leader.start(FakeGrid(deployment.nodes, run), model(), num_rounds=rounds)
    return leader.records[-1]


def sums(deployment):
    path = deployment.folder / "run.log"
    return with_logged(History(), log_lines(path), deployment.roster)


@pytest.mark.parametrize("lost", [True, False])
def test_a_lost_checkpoint_does_not_make_the_meter_forget(tmp_path, lost):
    """A sum with a client and one without it give the client away, whether or not the checkpoint is still there."""
    deployment = Deployment(tmp_path, **TOLERANT)
    assert lead(deployment, 1, missing=2).leak.exposed == 0
    if lost:
        (tmp_path / "run.checkpoint").unlink()
    record = lead(deployment, 2, 1 if lost else 2)
    assert (record.leak.exposed, record.leak.first) == (1, 2)
    assert sums(deployment).opened == (OpenedSum(1, (0, 1, 3), (1, 1, 1)), OpenedSum(2, (0, 1, 2, 3), (1, 1, 1, 1)))


def test_what_checkpoint_and_log_both_know_counts_once(tmp_path):
    deployment = Deployment(tmp_path, **TOLERANT)
    lead(deployment, 1, 2)
    history = sums(deployment)
    assert len(history.opened) == 1
    assert with_logged(history, log_lines(tmp_path / "run.log"), deployment.roster) == history


def test_weights_are_logged_and_count(tmp_path):
    """Two sums of the same clients under two weights: their difference is one client."""
    deployment = Deployment(tmp_path, weights={1: 2}, fields={"weight_cap": 2}, **TOLERANT)
    lead(deployment, 1)
    (found,) = sums(deployment).opened
    assert found == OpenedSum(1, (0, 1, 2, 3), (1, 2, 1, 1))
    line = next(each for each in log_lines(tmp_path / "run.log") if isinstance(each.data, RoundClosed))
    plain = msgspec.structs.replace(line.data.shards[0], weights=(1, 1, 1, 1))
    again = msgspec.structs.replace(line, data=msgspec.structs.replace(line.data, shards=(plain,)))
    history = with_logged(History(), [line, again], deployment.roster)
    assert OpenedMeter(deployment.roster, history.opened, history.rounds).reading().exposed == 1


def test_a_weight_that_a_later_serial_gives_does_not_change_what_was_opened(tmp_path):
    """All weights were 1 then, and one is 2 now: the difference of the two sums is one client."""
    deployment = Deployment(tmp_path, **TOLERANT)
    lead(deployment, 1)
    clients = [msgspec.structs.replace(each, weight=1 + (each.id == 1)) for each in deployment.roster.clients]
    heavier = msgspec.structs.replace(deployment.roster, clients=tuple(clients), weight_cap=2)
    history = with_logged(History(), log_lines(tmp_path / "run.log"), heavier)
    assert history.opened == (OpenedSum(1, (0, 1, 2, 3), (1, 1, 1, 1)),)
    meter = OpenedMeter(heavier, history.opened, history.rounds)
    assert meter.observe([OpenedSum(2, (0, 1, 2, 3), (1, 2, 1, 1))]).exposed == 1


def test_two_weights_in_sums_of_one_round_count_as_two_sums(tmp_path):
    """A checkpoint and a log count rounds each by itself, so both may know a sum as that of the first round."""
    deployment = Deployment(tmp_path, **TOLERANT)
    light, heavy = OpenedSum(1, (0, 1, 2, 3), (1, 1, 1, 1)), OpenedSum(1, (0, 1, 2, 3), (1, 2, 1, 1))
    reading = OpenedMeter(deployment.roster, (light, heavy), 1).reading()
    assert (reading.exposed, reading.first, reading.rank) == (1, 1, 2)
    assert OpenedMeter(deployment.roster, (light, light), 1).reading().exposed == 0


def test_a_line_with_too_few_weights_is_refused_and_forgets_nobody(tmp_path):
    deployment = Deployment(tmp_path, **TOLERANT)
    lead(deployment, 1)
    line = next(each for each in log_lines(tmp_path / "run.log") if isinstance(each.data, RoundClosed))
    cut = msgspec.structs.replace(line.data.shards[0], weights=(1, 2))
    line = msgspec.structs.replace(line, data=msgspec.structs.replace(line.data, shards=(cut,)))
    with pytest.raises(ConfigError, match="names 4 survivors of a sum and 2 weights; see f2ed log verify"):
        with_logged(History(), [line], deployment.roster)


def test_lines_of_earlier_versions_take_the_weights_of_the_roster(tmp_path):
    deployment = Deployment(tmp_path, weights={1: 2}, fields={"weight_cap": 2}, **TOLERANT)
    old = ShardOutcome(shard=0, ctx=bytes(32), survivors=(0, 1, 3))
    assert b"weights" not in msgspec.json.encode(old)
    lead(deployment, 1)
    line = next(each for each in log_lines(tmp_path / "run.log") if isinstance(each.data, RoundClosed))
    line = msgspec.structs.replace(line, data=msgspec.structs.replace(line.data, shards=(old,)))
    assert read_line(write_line(line)) == line
    assert with_logged(History(), [line], deployment.roster).opened == (OpenedSum(1, (0, 1, 3), (1, 2, 1)),)


def test_a_torn_line_and_a_renamed_file_are_no_obstacle(tmp_path):
    deployment = Deployment(tmp_path, **TOLERANT)
    lead(deployment, 1, missing=2)
    before = sums(deployment)
    path = tmp_path / "run.log"
    path.rename(tmp_path / "run.000001.log")
    path.write_bytes(b'{"at":"20')
    assert sums(deployment) == before
