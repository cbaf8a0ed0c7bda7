"""Gradients by one pass through the model for all clients equal those of each client, and other models are refused."""

import os

import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, group_norm

from f2ed.learning.fast.gradients import by_vmap
from f2ed.learning.fast.stacked import by_stacking
from f2ed.learning.models import ResNet18
from f2ed.learning.vector import flatten, layout

CLIENTS, BATCH, SHAPE = 3, 4, (2, 8, 8)


class OneByOne:
    """The layers, client by client with torch's own functions."""

    @staticmethod
    def convolve(images, kernels, stride, edge):
        parts = zip(images.chunk(len(kernels)), kernels, strict=True)
        return torch.cat([conv2d(mine, kernel, stride=stride, padding=edge) for mine, kernel in parts])

    @staticmethod
    def normalize(images, groups, scales, shifts, tiny):
        parts = zip(images.chunk(len(scales)), scales, shifts, strict=True)
        return torch.cat([group_norm(mine, groups, scale, shift, tiny) for mine, scale, shift in parts])

    @staticmethod
    def supports(channels):
        return channels < 100


@pytest.fixture(autouse=True)
def _full_precision(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


class Lopsided(nn.Module):
    """A network with everything that can be stacked: strides, kernels of several sizes, biases, dense layers."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 5, 5, padding=2)
        self.second = nn.Conv2d(5, 16, 3, stride=2)
        self.third = nn.Conv2d(16, 16, 1, stride=2, bias=False)
        self.norm = nn.GroupNorm(4, 16)
        self.dense = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Tanh(), nn.Linear(6, 3, bias=False))

    def forward(self, images):
        seen = self.second(self.first(images).relu())
        return self.dense(self.norm(self.third(seen)) + seen[:, :, ::2, ::2])


def ways():
    """Return networks with layers on this machine; Triton's interpreter stands in for a GPU where it is asked for."""
    found = [pytest.param(Lopsided(), OneByOne, "cpu", id="one by one")]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" or os.environ.get("TRITON_INTERPRET") == "1":
        from f2ed.learning.fast.triton_layers import TritonLayers

        found.append(pytest.param(Lopsided(), TritonLayers, device, id="triton"))
        found.append(pytest.param(ResNet18(width=2)(SHAPE, 3, 0), TritonLayers, device, id="triton, residual"))
    return found


def task(network, device="cpu"):
    """Return weights, buffers, images, labels and shares of the clients."""
    generator = torch.Generator().manual_seed(0)
    weights, buffers = flatten(network).cpu().tensor_split([layout(network).trained])
    weights = weights + torch.randn(CLIENTS, len(weights), generator=generator) / 50
    images = torch.randn(CLIENTS, BATCH, *SHAPE, generator=generator)
    labels = torch.randint(3, (CLIENTS, BATCH), generator=generator)
    shares = torch.rand(CLIENTS, BATCH, generator=generator)
    return [part.to(device) for part in (weights, buffers, images, labels, shares)]


@pytest.mark.parametrize(("network", "layers", "device"), ways())
def test_gradients_equal_those_of_each_client(network, layers, device):
    network = network.to(device)
    given = task(network, device)
    precise = [part.double() if part.is_floating_point() else part for part in given]
    found = by_stacking(network, layers)(*(precise if layers is OneByOne else given))
    wanted = by_vmap(network)(*precise)
    # In float32 a unit of ReLU close to zero may be on either side of it.
    assert float((found - wanted).norm() / wanted.norm()) < (1e-12 if layers is OneByOne else 1e-3)


class Scaled(nn.Module):
    """A network that uses a weight outside any layer."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.dense = nn.Linear(128, 3)

    def forward(self, images):
        return self.dense(images.flatten(1)) * self.scale


REFUSED = {
    "mul uses weights": Scaled(),
    "batch_norm uses weights": nn.Sequential(nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(128, 3)),
    "dilation": nn.Sequential(nn.Conv2d(2, 2, 3, padding=2, dilation=2), nn.Flatten(), nn.Linear(128, 3)),
    "groups": nn.Sequential(nn.Conv2d(2, 2, 3, padding=1, groups=2), nn.Flatten(), nn.Linear(128, 3)),
    "not square": nn.Sequential(nn.Conv2d(2, 2, (1, 3)), nn.Flatten(), nn.Linear(96, 3)),
    "with same": nn.Sequential(nn.Conv2d(2, 2, 3, padding="same"), nn.Flatten(), nn.Linear(128, 3)),
    "of other shapes": nn.Sequential(nn.Flatten(), nn.GroupNorm(2, 128), nn.Linear(128, 3)),
    "more than a vector": nn.Sequential(nn.Linear(8, 2), nn.Flatten(), nn.Linear(32, 3)),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_model_that_uses_weights_otherwise_is_refused(why):
    network = REFUSED[why]
    with pytest.raises(NotImplementedError, match=why):
        by_stacking(network, OneByOne)(*task(network))
