"""Apps as people have them: the diffs of the page, applied to apps like Flower's quickstarts, run and learn."""

import importlib
import sys

import pytest
from flwr.app import Context, RecordDict
from flwr.serverapp.strategy import Strategy

from tests.flower.adopted.apps import APPS, settings_of, write_adopted, write_in_bfloat16
from tests.flower.fake_grid import FakeGrid, Node, real_roster

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

LEARNED = {"pytorchexample": 0.5, "sklearnexample": 0.75, "textexample": 0.85, "tabularexample": 0.9}
"""Far above chance; apps draw from the generator of torch in the order of their threads, so that runs differ."""


def accuracy(name, task, arrays):
    """Return the accuracy of a model on all data."""
    if name == "sklearnexample":
        model = task.create_log_reg_and_instantiate_parameters(1)
        task.set_model_params(model, arrays.to_numpy_ndarrays())
        parts = [task.load_data(each, 8) for each in range(8)]
        return sum(model.score(part[1], part[3]) for part in parts) / 8
    if name == "pytorchexample":
        model = task.Net()
        model.load_state_dict(arrays.to_torch_state_dict())
        return task.test(model, task.load_centralized_dataset(), torch.device("cpu"))[1]
    model = task.Classifier() if name == "textexample" else task.IncomeClassifier()
    model.load_state_dict(arrays.to_torch_state_dict())
    return (task.test if name == "textexample" else task.evaluate)(model, task.load_data(0, 1))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that writes an app, adopted or not, and runs it over a grid in this process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def go(name, *, adopted, bfloat16=False):
        place = tmp_path / "app"
        folder = write_in_bfloat16(place) if bfloat16 else write_adopted(name, place, adopted=adopted)
        monkeypatch.chdir(tmp_path)  # Where an app saves its model.
        monkeypatch.syspath_prepend(str(folder))
        client, server, task = (
            importlib.import_module(f"{name}.{part}") for part in ("client_app", "server_app", "task")
        )
        torch.manual_seed(0)
        _, own = real_roster(tmp_path, 8, shards=2)
        settings = settings_of(folder) | {"f2ed-roster": str(tmp_path / "roster.json")}
        grid = FakeGrid([Node(each, client.app, own[each] | {"num-partitions": 8}, settings) for each in range(8)])
        results = []
        strategy = server.F2ed if adopted else server.FedAvg
        plain = strategy.start
        monkeypatch.setattr(
            strategy, "start", lambda *args, **given: results.append(plain(*args, **given)) or results[0]
        )
        server.app(grid, Context(1, 1, {}, RecordDict(), settings))
        assert issubclass(strategy, Strategy)
        return grid, accuracy(name, task, results[0].arrays)

    yield go
    torch.set_num_threads(threads)
    for module in [module for module in sys.modules if module.partition(".")[0] in APPS]:
        del sys.modules[module]


@pytest.mark.parametrize("name", APPS)
def test_it_learns_under_both_protections_after_two_lines_on_each_side(run, name):
    grid, found = run(name, adopted=True)
    assert found > LEARNED[name]
    assert all(set(reply.content) == {"f2ed"} for reply in grid.replies)


def test_in_bfloat16_it_learns_after_the_lines_of_the_page(run):
    _, found = run("textexample", adopted=True, bfloat16=True)
    assert sys.modules["textexample.client_app"].load_arrays
    assert found > LEARNED["textexample"]


def test_unchanged_it_sends_plain_updates(run):
    grid, _ = run("tabularexample", adopted=False)
    assert any("arrays" in reply.content for reply in grid.replies)
