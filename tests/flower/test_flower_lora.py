"""A declared set of arrays travels, and nothing else; the LoRA example learns over a grid in this process."""

import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, MetricRecord, RecordDict

from f2ed import Mean
from f2ed.core.errors import ConfigError
from f2ed.estimators import RootVeto
from f2ed.flower.subset import declared
from tests.flower.fake_grid import FakeGrid, Node, model, moved_by, real_roster, server, user_app, vector

EXAMPLE = Path(__file__).parents[2] / "examples" / "06_lora"


def with_base():
    base = {"base.weight": Array(np.full(1000, 3.0, np.float32))}
    return ArrayRecord(base | dict(model()))


def led(tmp_path, **settings):
    roster, own = real_roster(tmp_path, 6, shards=2)
    grid = FakeGrid([Node(each, user_app(), own[each]) for each in range(6)])
    leader = server(roster, trained_arrays=["weight", "count", "bi*"], **settings)
    return roster, grid, leader


def test_only_the_declared_arrays_travel_and_the_rest_stays(tmp_path):
    seen, finished = [], []
    roster, grid, leader = led(tmp_path, on_round=lambda each: finished.append(list(each.arrays)))

    def evaluate(_round, arrays):
        seen.append(list(arrays))
        return MetricRecord({"loss": 1.0})

    result = leader.start(grid=grid, initial_arrays=with_base(), num_rounds=1, evaluate_fn=evaluate)
    sent = [each.content["arrays"] for each in grid.sent if "arrays" in each.content]
    assert sent
    assert all(list(arrays) == ["weight", "count", "bias"] for arrays in sent)
    assert seen == [list(with_base())] * 2
    assert finished == [list(with_base())]
    assert (result.arrays["base.weight"].numpy() == 3).all()
    assert vector(result.arrays) == pytest.approx(moved_by([roster.assignment(0).shards]), abs=1e-5)


def test_what_the_server_trains_itself_is_the_whole_model(tmp_path):
    given = []

    def root(_round, arrays):
        given.append(list(arrays))
        return arrays

    _, grid, leader = led(tmp_path, estimator=RootVeto(inner=Mean()), root_fn=root, accept_no_guarantee=True)
    leader.start(grid=grid, initial_arrays=with_base(), num_rounds=1)
    assert given == [list(with_base())]


@pytest.mark.parametrize(
    ("patterns", "words"),
    [
        (["lora*"], r"'lora\*', which fits no array of the model \(base.weight, weight, count …\)"),
        ([], "trained_arrays is empty"),
        ("weight", r"is the text 'weight'; give a list"),
    ],
)
def test_a_declaration_that_fits_nothing_is_refused(patterns, words):
    with pytest.raises(ConfigError, match=words):
        declared(with_base(), patterns)


def test_a_model_that_lacks_a_declared_array_is_refused():
    with pytest.raises(ConfigError, match="the model lacks 'weight'"):
        declared(model(), ["weight"]).part(ArrayRecord())


def test_the_example_learns_and_sends_adapters_alone(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    threads = torch.get_num_threads()
    try:
        from adapters import client_app, server_app, task

        roster, own = real_roster(tmp_path, 6, shards=2)
        settings = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
        settings |= {"f2ed-roster": str(tmp_path / "roster.json"), "f2ed-records": str(tmp_path / "run.jsonl")}
        nodes = [Node(each, client_app.app, own[each] | {"num-partitions": 6}, settings) for each in range(6)]
        grid = FakeGrid(nodes)
        before = task.accuracy(task.make_model("tiny"), "tiny")
        server_app.app(grid, Context(1, 1, {}, RecordDict(), settings))
    finally:
        torch.set_num_threads(threads)
        for name in [name for name in sys.modules if name.partition(".")[0] == "adapters"]:
            del sys.modules[name]
    from f2ed.records import read

    assert before < 0.5
    rounds = read(tmp_path / "run.jsonl").rounds
    assert rounds[-1].accuracy > 0.75
    assert [record.clipped for record in rounds] == [0, 0, 0]
    sent = next(each.content["arrays"] for each in grid.sent if "arrays" in each.content)
    assert all(name.endswith(".b") or name.startswith("classify.") for name in sent)
    assert roster.shards == 2
