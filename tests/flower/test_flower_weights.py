"""Weights that the authority signed: shard means and the mean over shards are weighted, and nobody declares its own."""

import numpy as np
import pytest

from f2ed import ConfigError, FilterL2
from f2ed.estimators import Bulyan
from f2ed.records import read
from tests.flower.fake_grid import FakeGrid, Node, change, model, real_roster, server, user_app, vector

WEIGHTS = {0: 4, 1: 4, 2: 3, 3: 5, 4: 4, 5: 3}


@pytest.fixture
def weighted(tmp_path):
    def make(weights=WEIGHTS, count=6):
        fields = {"weight_cap": max(weights.values()), "accepted": ("leak",)}
        roster, settings = real_roster(tmp_path, count, shards=2, weights=weights, fields=fields, colluders=0)
        return FakeGrid([Node(client, user_app(), settings[client]) for client in range(count)]), roster

    return make


@pytest.mark.parametrize("estimator", [FilterL2(contamination=0.0), None])
def test_the_model_moves_by_the_weighted_mean_of_all_clients(weighted, estimator):
    grid, roster = weighted()
    result = server(roster, **({} if estimator is None else {"estimator": estimator})).start(
        grid, model(), num_rounds=1
    )
    steps = [change(client, 1) for client in range(6)]
    expected = vector(model()) + np.average(steps, axis=0, weights=list(WEIGHTS.values()))
    np.testing.assert_allclose(vector(result.arrays), expected, atol=3e-6)
    plain = vector(model()) + np.mean(steps, axis=0)
    assert np.abs(expected - plain).max() > 1e-4


def test_the_weights_are_in_the_header_of_the_records(weighted, tmp_path):
    grid, roster = weighted()
    server(roster, records=tmp_path / "run.jsonl").start(grid, model(), num_rounds=1)
    stated = read(tmp_path / "run.jsonl").header.settings["weights"]
    assert stated == {f"client_{client}": weight for client, weight in WEIGHTS.items()}


def test_an_estimator_without_weights_is_refused_at_the_start(weighted):
    _, roster = weighted()
    with pytest.raises(ConfigError, match=r"is not defined for rows of different weights.* from 3 to 5"):
        server(roster, estimator=Bulyan(f=0), malicious=0)
