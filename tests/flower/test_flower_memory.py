"""A server with a memory budget: sums and means in files give the same model, to the bit."""

import numpy as np
import pytest

from f2ed import FilterL2
from f2ed.core import arrays as blocks
from f2ed.core.errors import ConfigError
from f2ed.core.spill import Spill, is_spilled
from f2ed.flower import sharded_round as rounds
from tests.flower.fake_grid import FakeGrid, Node, model, real_roster, server, user_app, vector

ROSTER = "test:12/3"
ESTIMATOR = FilterL2(contamination=0.2)


def led(monkeypatch, **settings):
    """Lead two rounds; return the model, and whether the means of each round were in a file."""
    found, plain = [], rounds.shard_means

    def seen(*args, **kwargs):
        opened = plain(*args, **kwargs)
        found.append(is_spilled(opened.means))
        return opened

    monkeypatch.setattr(rounds, "shard_means", seen)
    run_config = {"f2ed-rounding-seed": 3, "f2ed-roster": ROSTER}
    grid = FakeGrid([Node(each, user_app(), run_config=run_config) for each in range(12)])
    leader = server(ROSTER, estimator=ESTIMATOR, accept_no_guarantee=True, malicious=0, **settings)
    result = leader.start(grid=grid, initial_arrays=model(), num_rounds=2)
    return vector(result.arrays), found


@pytest.mark.usefixtures("simulated")
def test_sums_and_means_in_files_give_the_same_model(tmp_path, monkeypatch):
    models = []
    for budget in (None, 0):
        with monkeypatch.context() as patch:
            moved, found = led(patch, memory_budget=budget, **({} if budget is None else {"spill_folder": tmp_path}))
        assert found == [budget == 0] * 2
        models.append(moved)
    assert models[0].tobytes() == models[1].tobytes() != vector(model()).tobytes()


def test_a_disk_without_room_ends_the_run_before_anyone_is_asked(tmp_path, monkeypatch):
    def full(_self, size):
        raise ConfigError(f"no room for {size} bytes")

    monkeypatch.setattr(Spill, "check_room", full)
    roster, own = real_roster(tmp_path, 12, shards=3)
    grid = FakeGrid([Node(each, user_app(), own[each]) for each in range(12)])
    # Three shards, of which each has a mean of 26 floats, and a sum of as many words and the counts of what was cut.
    words = roster.encoding.to_encoding().length(26)
    with pytest.raises(ConfigError, match=f"no room for {3 * 4 * (26 + words)} bytes"):
        server(roster, memory_budget=0).start(grid=grid, initial_arrays=model(), num_rounds=1)
    assert grid.sent == []


def test_a_pass_over_a_file_leaves_little_of_it_in_memory(tmp_path, monkeypatch):
    forgotten = []
    monkeypatch.setattr(blocks, "_RESIDENT", 1 << 20)
    monkeypatch.setattr(blocks, "forget", lambda part: forgotten.append(part.nbytes))
    rows = Spill(0, tmp_path)((8, 600_000), np.float32)
    rows[:] = np.random.default_rng(0).normal(size=600_000).astype(np.float32)
    rows += np.arange(8, dtype=np.float32)[:, None] / 100
    estimate = ESTIMATOR(rows)
    assert sum(forgotten) >= 2 * rows.nbytes, "one pass for distances, and one for the mean"
    assert max(forgotten) < 3 << 20
    assert estimate.mean.tobytes() == ESTIMATOR(np.array(rows)).mean.tobytes()
