"""Arguments of `F2ed` and `start` that cannot mean what was meant: refused by name before anybody is asked."""

import inspect

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from f2ed import FilterL2, Mean
from f2ed.core.errors import ConfigError
from f2ed.flower import BestModel, F2ed
from tests.flower.fake_grid import FakeGrid, model, server

ROSTER = "test:8/2"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"estimator": "filter-l2"}, "estimator is a str; give an estimator, such as f2ed.FilterL2"),
        ({"estimator": FilterL2}, "estimator is the class FilterL2; give an estimator"),
        ({"server_optimizer": "adam"}, r"server_optimizer is a str; give one of f2ed.protocol.aggregation"),
        ({"on_round": "print"}, "on_round is a str; give a function"),
        ({"on_round": [print, 3]}, "on_round is a int; give a function"),
        ({"root_fn": 3}, "root_fn is a int; give a function"),
        ({"deadline": 0}, "deadline: expected `float` > 0.0"),
        ({"deadline": "120"}, "deadline: expected `float`, got `str`"),
        ({"train_deadline": -1}, "train_deadline: expected `float` > 0.0"),
        ({"min_deadline": 0.0}, "min_deadline: expected `float` > 0.0"),
        ({"wait_for_nodes": -1}, "wait_for_nodes: expected `float` >= 0.0"),
        ({"max_wait": -1}, "max_wait: expected `float` >= 0.0"),
        ({"max_skipped": 0}, "max_skipped: expected `int` >= 1"),
        ({"min_crowd": 0}, "min_crowd: expected `int` >= 1"),
        ({"min_crowd": 2.5}, "min_crowd: expected `int`"),
        ({"delta": 0.0}, "delta: expected `float` > 0.0"),
        ({"delta": 1.0}, "delta: expected `float` < 1.0"),
        ({"seed": "a"}, "seed: expected `int"),
        ({"memory_budget": "1GB"}, "memory_budget: expected `int"),
        ({"malicious": "1"}, "malicious: expected `int"),
        ({"min_shards": 1.5}, "min_shards: expected `int"),
        ({"secure": "no"}, "secure: expected `bool`"),
        ({"accept_no_guarantee": 1}, "accept_no_guarantee: expected `bool`"),
        ({"checkpoint": "run", "records": "./run"}, "checkpoint and records are the same file, run"),
    ],
)
def test_a_setting_is_refused_by_name(given, words):
    with pytest.raises(ConfigError, match=words):
        F2ed(roster=ROSTER, **given)


def not_finite(value):
    arrays = model()
    values = arrays["weight"].numpy().copy()
    values[3] = value
    arrays["weight"] = Array(values)
    return arrays


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"num_rounds": -1}, "num_rounds: expected `int` >= 0"),
        ({"num_rounds": "3"}, "num_rounds: expected `int`, got `str`"),
        ({"timeout": 0}, "timeout: expected `float"),
        ({"evaluate_fn": 0.5}, "evaluate_fn is a float; give a function"),
        ({"evaluate_fn": lambda *_: 0.5}, "evaluate_fn returned a float; return a MetricRecord"),
        ({"evaluate_fn": lambda *_: (0.5, {})}, "evaluate_fn returned a tuple; return a MetricRecord"),
        ({"initial_arrays": not_finite(np.nan)}, "the array 'weight' of the model has values that are NaN or infinite"),
        ({"initial_arrays": not_finite(np.inf)}, "the array 'weight' of the model has values that are NaN or infinite"),
    ],
)
def test_an_argument_of_start_is_refused_before_anybody_is_asked(given, words):
    grid = FakeGrid([])
    with pytest.raises(ConfigError, match=words):
        server(ROSTER).start(**{"grid": grid, "initial_arrays": model(), "num_rounds": 1} | given)
    assert grid.sent == []


def test_an_array_that_does_not_travel_may_be_infinite(federation):
    grid, _, roster = federation(extra=["bias"])
    arrays = ArrayRecord({**model(), "mask": Array(np.full(3, -np.inf, np.float32))})
    leader = server(roster, trained_arrays=["weight", "count", "bias"])
    result = leader.start(grid, arrays, num_rounds=1)
    assert np.isneginf(result.arrays["mask"].numpy()).all()


def test_the_best_model_is_not_looked_for_without_an_evaluation(federation, tmp_path):
    grid, _, roster = federation()
    with pytest.raises(ConfigError, match="BestModel chooses a model by what evaluate_fn measures; give evaluate_fn"):
        server(roster, on_round=BestModel(tmp_path / "best.npz")).start(grid, model(), num_rounds=1)
    assert grid.sent == []


def test_a_function_that_no_rule_uses_is_named(caplog):
    F2ed(roster=ROSTER, root_fn=lambda _, arrays: arrays)
    assert "root_fn is not used, since FilterL2 needs no trusted update" in caplog.text


def test_numbers_of_numpy_are_numbers():
    F2ed(roster=ROSTER, min_crowd=np.int64(4), deadline=np.float32(9), max_skipped=np.int32(2), estimator=Mean())


def test_the_signature_is_that_of_the_function_itself():
    assert "train_deadline" in inspect.signature(F2ed).parameters
    assert list(inspect.signature(F2ed.start).parameters)[:3] == ["self", "grid", "initial_arrays"]


def test_a_strategy_leads_one_run(federation):
    grid, _, roster = federation()
    leader = server(roster)
    leader.start(grid, model(), num_rounds=1)
    with pytest.raises(ConfigError, match="this F2ed has led a run; lead all rounds by one call of start"):
        leader.start(grid, model(), num_rounds=1)
