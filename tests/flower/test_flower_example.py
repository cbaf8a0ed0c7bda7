"""The example app, over a grid in this process."""

import sys
from pathlib import Path

import pytest
from flwr.app import ArrayRecord

from f2ed import FilterL2, Mean
from f2ed.flower import F2ed
from tests.flower.fake_grid import FakeGrid, Node, real_roster

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

EXAMPLE = Path(__file__).parents[2] / "examples" / "04_flower"
SETTINGS = {"local-epochs": 3, "lr": 0.1, "malicious": 0}


@pytest.fixture(autouse=True)
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    for name in [name for name in sys.modules if name.partition(".")[0] == "digits"]:
        del sys.modules[name]


def learn(folder, nodes, shards, estimator, *, malicious=0, rounds=2):
    from digits.client_app import app
    from digits.server_app import evaluate
    from digits.task import make_model

    roster, own = real_roster(folder, nodes, shards=shards)
    settings = SETTINGS | {"malicious": malicious}
    grid = FakeGrid([Node(each, app, own[each] | {"num-partitions": nodes}, settings) for each in range(nodes)])
    strategy = F2ed(roster=roster, estimator=estimator, min_crowd=3)
    start = ArrayRecord(make_model().state_dict())
    result = strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds, evaluate_fn=evaluate)
    return result.evaluate_metrics_serverapp[rounds]["accuracy"], strategy.records


def test_it_learns(tmp_path):
    accuracy, records = learn(tmp_path, 6, 2, Mean())
    assert accuracy > 0.8
    assert all(each.skipped is None for each in records)


def test_the_filter_tolerates_the_malicious_client_and_a_plain_mean_does_not(tmp_path):
    (tmp_path / "filter").mkdir()
    (tmp_path / "mean").mkdir()
    filtered, records = learn(tmp_path / "filter", 12, 4, FilterL2(contamination=0.25), malicious=1)
    plain, _ = learn(tmp_path / "mean", 12, 4, Mean(), malicious=1)
    assert filtered > 0.8
    assert plain < filtered - 0.1
    weights = [weight for each in records for weight in each.weights]
    assert weights.count(0) >= len(records)
