"""An experiment file may name code and data that lie beside it."""

import sys
import uuid
from itertools import islice

import numpy as np
import pytest

from f2ed.core.errors import ConfigError
from f2ed.experiments import prepare, read, run_all, run_cell
from f2ed.experiments.parallel import run_in_processes

CODE = """
import numpy as np
from torch import nn
from f2ed.attacks import Attack
from f2ed.estimators import BoundedEstimator, Estimate


class Middle(BoundedEstimator, frozen=True, tag="middle"):
    title, family, paper = "Middle", "coordinate-wise", "Nobody, 2026"

    def estimate(self, rows):
        f = self.tolerated(rows.n)
        return Estimate(rows.fill(lambda block: np.sort(block, axis=0)[f : rows.n - f].mean(axis=0)))


class Push(Attack, frozen=True, tag="push"):
    title, family, paper = "Push", "untargeted", "Nobody, 2026"
    strength: float = 1.0

    def craft(self, scene):
        return -self.strength * scene.own


def network(hidden=4):
    return nn.Sequential(nn.Linear(5, hidden), nn.Tanh(), nn.Linear(hidden, 3))
"""
FILE = """
title = "Mine"
data = {{ kind = "npz", file = "mine.npz" }}
partition = "natural"
model = {{ kind = "imported", factory = "{0}:network", settings = {{ hidden = 8 }} }}
estimator = [{{ kind = "imported", factory = "{0}:Middle" }}, "mean"]
attack = {{ kind = "imported", factory = "{0}:Push", settings = {{ strength = 3.0 }} }}
clients = 10
malicious = 1
shards = 3
rounds = 3
training = {{ lr = 0.1 }}
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The file, its code under a name that no other test imports, and its data."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"mine_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(CODE)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 5))
    y = (x[:, 0] > 0).astype(int) + (x[:, 1] > 1)
    np.savez(
        tmp_path / "mine.npz",
        x_train=x[:200],
        y_train=y[:200],
        x_test=x[200:],
        y_test=y[200:],
        client=np.arange(200) % 10,
    )
    (tmp_path / "mine.toml").write_text(FILE.format(name))
    return tmp_path / "mine.toml", name


def test_a_file_runs_with_the_code_and_the_data_beside_it(mine, tmp_path):
    cells, loaded = prepare(read(mine[0]))
    assert [cell.name for cell in cells] == ["Middle", "mean"]
    logs = [
        event.log for event in run_all(cells, tmp_path / "out", loaded=loaded, workers=1) if event.kind == "finished"
    ]
    assert [len(log.rounds) for log in logs] == [3, 3]
    assert logs[0].header.estimator.title == "Middle"
    assert set(logs[0].header.sources) == {f"{mine[1]}:{name}" for name in ("network", "Middle", "Push")}


def test_the_same_in_worker_processes(mine, tmp_path):
    cells, _ = prepare(read(mine[0]))
    events = list(run_in_processes(cells, tmp_path / "out", jobs=1))
    assert sum(event.kind == "finished" for event in events) == 2


def test_a_run_does_not_go_on_with_other_code(mine, tmp_path):
    cells, loaded = prepare(read(mine[0]))
    data = loaded[cells[0].experiment.data]
    list(islice(run_cell(cells[0], tmp_path / "out", data=data, workers=1), 2))
    code = tmp_path / f"{mine[1]}.py"
    code.write_text(CODE.replace("mean(axis=0)", "sum(axis=0)"))
    with pytest.raises(ConfigError, match=r"changed since .* was started"):
        list(run_cell(cells[0], tmp_path / "out", data=data, workers=1))
    code.write_text(CODE)
    assert [kind for kind, _ in run_cell(cells[0], tmp_path / "out", data=data, workers=1)][-1] == "finished"


def test_a_shape_that_does_not_fit_is_refused_before_anything_starts(mine):
    path, name = mine
    path.write_text(FILE.format(name).replace('"mine.npz"', '"wide.npz"'))
    x = np.zeros((20, 7))
    np.savez(
        path.with_name("wide.npz"),
        x_train=x,
        y_train=np.arange(20) % 3,
        x_test=x,
        y_test=np.arange(20) % 3,
        client=np.arange(20) % 10,
    )
    with pytest.raises(ConfigError, match=r"mine\.toml: model: it does not take samples of shape \(7,\)"):
        prepare(read(path))
