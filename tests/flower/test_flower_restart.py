"""A server that is restarted continues from its checkpoint."""

import numpy as np
import pytest

from f2ed import ConfigError
from tests.flower.fake_grid import (
    model,
    moved_by,
    server,
    vector,
)

MODES = ["all-or-nothing", "dropout-tolerant"]


def test_a_restarted_server_goes_on_where_it_was(federation, tmp_path):
    path = tmp_path / "model.checkpoint"

    def die(number, _):
        if number == 2:
            raise KeyboardInterrupt

    grid, _, roster = federation(run_id=1)
    with pytest.raises(KeyboardInterrupt):
        server(roster, checkpoint=path).start(grid, model(), num_rounds=4, evaluate_fn=die)
    grid, _, roster = federation(run_id=2)
    leader = server(roster, checkpoint=path)
    result = leader.start(grid, model(), num_rounds=4)
    assert [each.round for each in leader.records] == [2, 3]
    np.testing.assert_allclose(vector(result.arrays), moved_by([roster.assignment(0).shards] * 4), atol=8e-6)


def test_a_checkpoint_of_another_model_is_refused(federation, tmp_path):
    grid, _, roster = federation()
    path = tmp_path / "model.checkpoint"
    server(roster, checkpoint=path).start(grid, model(), num_rounds=1)
    grid, _, roster = federation(run_id=2)
    with pytest.raises(ConfigError, match="another model"):
        server(roster, checkpoint=path).start(grid, model(size=5), num_rounds=2)
