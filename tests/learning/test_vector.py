"""A model's vector: parameters first, then floating buffers; never copied without need."""

import pytest
import torch
from torch import nn

from f2ed.core.errors import ConfigError
from f2ed.learning.models import Cnn, ResNet18
from f2ed.learning.vector import bind, flatten, layout, load, reorder


def test_parameters_come_first_then_floating_buffers_and_counts_are_left_out():
    shape = layout(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    assert shape.names == ("0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var")
    assert shape.sizes == (6, 3, 3, 3, 3, 3)
    assert (shape.trained, shape.dimension) == (15, 21)


@pytest.mark.parametrize("model", [Cnn(filters=2, hidden=3), ResNet18(width=2, norm="batch")], ids=str)
def test_what_is_loaded_is_what_is_flattened(model):
    network = model((1, 8, 8), 2, 0)
    vector = torch.randn(layout(network).dimension)
    load(network, vector)
    assert torch.equal(flatten(network), vector)
    torch.testing.assert_close(torch.cat([t.flatten() for t in layout(network).views(vector).values()]), vector)


def test_frozen_parameters_are_neither_trained_nor_sent():
    network = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    network[0].weight.requires_grad_(requires_grad=False)
    assert layout(network).names == ("0.bias", "1.weight", "1.bias")
    before = network[0].weight.clone()
    _, gradient = bind(network)
    network(torch.ones(4, 2)).sum().backward()
    assert gradient.tolist()[-1] == 4
    load(network, torch.full((7,), 5.0))
    assert torch.equal(network[0].weight, before)
    assert network[1].weight.eq(5).all()


def test_a_model_without_anything_to_train_is_refused():
    with pytest.raises(ConfigError, match="no parameters that require a gradient"):
        layout(nn.Linear(2, 2).requires_grad_(requires_grad=False))


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_bound_model_keeps_its_weights_and_gradients_in_two_vectors(channels_last):
    network = Cnn(filters=2, hidden=3)((2, 8, 8), 2, 0)
    before = flatten(network)
    vector, gradient = bind(network, channels_last=channels_last)
    assert torch.equal(flatten(network), before)
    assert torch.equal(reorder(before, layout(network)) if channels_last else before, vector)
    network(torch.randn(3, 2, 8, 8)).sum().backward()
    assert gradient.abs().sum() > 0
    vector.zero_()
    assert flatten(network).eq(0).all()


def test_tied_weights_appear_once_and_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = self.second = nn.Linear(3, 3)

    network = Tied()
    assert layout(network).dimension == 12
    vector, _ = bind(network)
    vector.fill_(2)
    assert network.second.weight.eq(2).all()
    assert network.first is network.second


def test_a_vector_of_another_length_is_refused():
    with pytest.raises(ConfigError, match=r"shape \(5,\), but the model needs \(6,\)"):
        load(nn.Linear(2, 2), torch.zeros(5))


def test_other_floats_than_float32_are_refused():
    with pytest.raises(ConfigError, match=r"weight is torch.float64; updates are float32"):
        layout(nn.Linear(2, 2).double())


def test_a_model_without_parameters_is_refused():
    with pytest.raises(ConfigError, match="nothing to train"):
        layout(nn.Flatten())
