"""State dicts, pytrees and lists of tensors in, the same out."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch
from torch import nn

from f2ed.core.errors import ConfigError
from f2ed.estimators import FilterL2, Krum, Mean, Median, Sections, TrimmedMean

RNG = np.random.default_rng(0)


def test_a_list_of_tensors_gives_a_tensor():
    rows = [torch.randn(7) for _ in range(9)]
    picked = Krum(f=2).aggregate(rows)
    assert any(torch.equal(picked, row) for row in rows)


def test_arrays_of_any_shape_keep_it():
    rows = [RNG.normal(size=(2, 3)) for _ in range(5)]
    assert np.array_equal(Median().aggregate(rows), np.median(rows, axis=0))


def test_state_dicts_give_a_state_dict_that_loads():
    models = [nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)) for _ in range(8)]
    for number, model in enumerate(models):
        model[1].num_batches_tracked += number
    mean = TrimmedMean(f=1).aggregate([model.state_dict() for model in models])
    assert isinstance(mean, OrderedDict)
    models[0].load_state_dict(mean)
    weights = torch.stack([model[0].weight for model in models[1:]])
    assert mean["0.weight"].shape == weights.shape[1:]
    assert mean["1.num_batches_tracked"] == 3  # the lower median, not an average


def test_all_arrays_enter_one_geometry():
    honest = [{"a": RNG.normal(size=500), "b": [RNG.normal(size=(20, 20))]} for _ in range(18)]
    malicious = [{"a": np.full(500, 0.9), "b": [np.full((20, 20), 0.9)]} for _ in range(2)]
    mean = FilterL2(f=2).aggregate(honest + malicious)
    flat = np.stack([np.concatenate([each["a"], each["b"][0].ravel()]) for each in honest + malicious])
    expected = FilterL2(f=2)(flat).mean
    assert np.array_equal(np.concatenate([mean["a"], mean["b"][0].ravel()]), expected)


def test_tuples_with_names_keep_them():
    Pair = namedtuple("Pair", "weight bias")  # noqa: PYI024
    mean = Mean().aggregate([Pair(np.zeros(2), np.zeros(1)), Pair(np.ones(2), np.ones(1))])
    assert isinstance(mean, Pair)
    assert mean.bias == [0.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_type_of_each_array_is_kept(dtype):
    mean = Mean().aggregate([{"w": torch.full((3,), value, dtype=dtype)} for value in (1.0, 2.0)])
    assert mean["w"].dtype == dtype
    assert mean["w"].tolist() == [1.5, 1.5, 1.5]


def test_rules_by_tensor_get_the_sizes_of_the_arrays():
    updates = [{"a": RNG.normal(size=3), "b": RNG.normal(size=5)} for _ in range(7)]
    rule = Sections(Krum(f=1), size=None, per_tensor=True)
    mean = rule.aggregate(updates)
    assert np.array_equal(mean["a"], Krum(f=1).aggregate([each["a"] for each in updates]))
    assert np.array_equal(mean["b"], Krum(f=1).aggregate([each["b"] for each in updates]))


def test_the_order_of_the_keys_does_not_matter():
    mean = Mean().aggregate([{"a": np.zeros(1), "b": np.ones(1)}, {"b": np.ones(1), "a": np.zeros(1)}])
    assert (mean["a"], mean["b"]) == ([0.0], [1.0])


@pytest.mark.parametrize(
    ("updates", "words"),
    [
        ([], "found an empty list"),
        ({"w": np.zeros(2)}, "found a dict"),
        (np.float32(1), "found a float32"),
        ([{"w": np.zeros(2)}, {}], "update 1 differs from update 0: it has no w"),
        ([{}, {"w": np.zeros(2)}], "it has w, which update 0 lacks"),
        ([{"w": np.zeros(2)}, {"w": np.zeros(3)}], r"w is float64 of shape \(3,\), wanted float64 of shape \(2,\)"),
        ([np.zeros(2), np.zeros(2, "f4")], "the array is float32"),
        ([{"w": "text"}], "w is a str"),
        ([{"w": np.zeros(2, int)}], "no floating-point array"),
        ([{"w": np.zeros(2), "v": torch.zeros(2)}], "mix torch tensors"),
    ],
)
def test_what_is_no_list_of_updates_is_refused(updates, words):
    with pytest.raises(ConfigError, match=words):
        Mean().aggregate(updates)
