"""Models in files: what is written is read, and what is no model is refused."""

import json

import pytest
import torch
from torch import nn

from f2ed.core.errors import ConfigError
from f2ed.learning import flatten
from f2ed.learning.saved import read_tensors, save_model, saved_vector


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 3))


def test_a_model_comes_back_bit_by_bit(model, tmp_path):
    save_model(tmp_path / "m.safetensors", model, digest="abc")
    found = read_tensors(tmp_path / "m.safetensors")
    assert list(found) == list(model.state_dict())
    assert all(torch.equal(found[name], tensor) for name, tensor in model.state_dict().items())
    assert torch.equal(saved_vector(tmp_path / "m.safetensors", model), flatten(model))


def test_the_format_is_that_of_safetensors(model, tmp_path):
    save_model(tmp_path / "m.safetensors", model)
    data = (tmp_path / "m.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert length % 8 == 0
    assert header["0.weight"] == {"dtype": "F32", "shape": [2, 1, 3, 3], "data_offsets": [0, 72]}
    assert header["__metadata__"] == {"format": "pt"}
    assert max(each["data_offsets"][1] for name, each in header.items() if name[0] != "_") == len(data) - 8 - length


def test_another_model_is_refused_by_name(model, tmp_path):
    save_model(tmp_path / "m.safetensors", model)
    with pytest.raises(ConfigError, match="has no tensor 'weight'"):
        saved_vector(tmp_path / "m.safetensors", nn.Linear(2, 3))
    model[3] = nn.Linear(2, 4)
    with pytest.raises(ConfigError, match=r"3\.weight has shape \(3, 2\), and this model needs \(4, 2\)"):
        saved_vector(tmp_path / "m.safetensors", model)


def header(**about):
    text = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | about}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(8)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"short",
        (2**62).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        header(shape=[2**40]),
        header(shape=[3]),
        header(data_offsets=[0, 800]),
        header(data_offsets=[-8, 0]),
        header(dtype="PICKLE"),
        header(shape="x"),
    ],
)
def test_what_is_no_model_is_refused(data, tmp_path):
    (tmp_path / "m.safetensors").write_bytes(data)
    with pytest.raises(ConfigError, match="is not a model in the safetensors format"):
        read_tensors(tmp_path / "m.safetensors")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"m\.safetensors cannot be read"):
        read_tensors(tmp_path / "m.safetensors")
