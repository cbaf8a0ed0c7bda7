"""Noise for differential privacy, from the server's settings to the records."""

from contextlib import nullcontext

import numpy as np
import pytest

from f2ed import ConfigError, OutageError
from f2ed.deployment.roster import SignedEncoding
from f2ed.protocol.dp import dp_epsilon
from f2ed.records import read
from tests.flower.fake_grid import (
    FakeGrid,
    Node,
    model,
    moved_by,
    opened,
    server,
    silence,
    user_app,
    vector,
)

MODES = ["all-or-nothing", "dropout-tolerant"]


def noise(multiplier):
    """Return what the authority signs."""
    return {"encoding": SignedEncoding(clip_norm=0.1), "noise_multiplier": multiplier}


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("mode", MODES)
def test_with_noise_masked_equals_plain_to_the_bit(mode):
    def run(*, secure, run_id):
        run_config = {"f2ed-roster": f"test:8/2/{mode}", "f2ed-rounding-seed": 5}
        grid = FakeGrid([Node(client, user_app(), run_config=run_config) for client in range(8)], run_id)
        leader = server(f"test:8/2/{mode}", secure=secure, clip_norm=0.1, noise_multiplier=1.0)
        return vector(leader.start(grid, model(), num_rounds=2).arrays).tobytes()

    assert run(secure=True, run_id=1) == run(secure=False, run_id=2)


def test_noise_is_new_in_every_run_and_of_the_stated_size(federation):
    steps = []
    for run_id in (1, 2):
        grid, _, roster = federation(run_id=run_id, fields=noise(1.0))
        result = server(roster).start(grid, model(), num_rounds=1)
        steps.append(vector(result.arrays) - moved_by([roster.assignment(0).shards]))
    assert not np.array_equal(*steps)
    # Two shards of three, in which two carry the noise and one may collude: 0.1 · √1.5 · √2 / 6 in each of 2 x 26
    # coordinates; half of it is 5 standard errors away.
    assert np.std(steps) == pytest.approx(0.1 * 3**0.5 / 6, rel=0.5)


def test_epsilon_is_counted_per_client_and_goes_on_after_a_restart(federation, tmp_path, caplog):
    settings = {
        "delta": 1e-4,
        "checkpoint": tmp_path / "model.checkpoint",
    }
    grid, nodes, roster = federation(fields=noise(2.0))
    first = server(roster, records=tmp_path / "run.jsonl", **settings)
    first.start(grid, model(), num_rounds=1)
    assert first.records[0].dp_epsilon == pytest.approx(dp_epsilon(1 / 8, 1e-4))
    assert f"epsilon at most {dp_epsilon(1 / 8, 1e-4):.3g};" in caplog.text
    grid, nodes, roster = federation(run_id=8)
    gone = roster.assignment(0).shards[0][0]
    nodes[gone].tamper = silence
    again = server(roster, **settings, min_shards=1)
    again.start(grid, model(), num_rounds=2)
    spent = again.records[-1].dp_epsilon
    for shard, openings in zip(roster.assignment(0).shards, (1, 2), strict=True):
        assert [spent[client] for client in shard] == pytest.approx([dp_epsilon(openings / 8, 1e-4)] * 3)
    log = read(tmp_path / "run.jsonl")
    assert log.rounds[0].dp_epsilon == pytest.approx(dp_epsilon(1 / 8, 1e-4))
    assert log.header.noise.noise_multiplier == 2.0


@pytest.mark.parametrize(("signed", "shards"), [(0.0, 0), (0.5, 0), (1.0, 2), (2.0, 2)])
def test_nodes_refuse_less_noise_than_they_ask_for(federation, signed, shards):
    grid, nodes, roster = federation(fields=noise(signed))
    for node in nodes:
        node.node_config["f2ed-noise-multiplier"] = 1.0
    leader = server(roster)
    with nullcontext() if shards else pytest.raises(OutageError, match="nothing was opened"):
        leader.start(grid, model(), num_rounds=1)
    assert len(opened(leader, 0)) == shards
    if not shards:
        assert "this client demands 1" in next(iter(leader.records[0].dropped.values()))


def test_a_node_with_a_noise_that_is_no_number_says_so(federation):
    grid, nodes, roster = federation()
    nodes[0].node_config["f2ed-noise-multiplier"] = "much"
    leader = server(roster, min_shards=1)
    leader.start(grid, model(), num_rounds=1)
    assert len(opened(leader, 0)) == 1


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"noise_multiplier": 1.0}, "without clip_norm"),
        ({"noise_multiplier": -1.0, "clip_norm": 1.0}, "noise multiplier"),
    ],
)
def test_noise_that_cannot_work_is_refused_before_anything_starts(settings, why):
    with pytest.raises(ConfigError, match=why):
        server("test:6/2", **settings)
