"""Gradients by hand equal those of autograd, on every way to convolve."""

import os

import pytest
import torch
from torch import nn

from f2ed.learning.fast.convolutions import OneByOne
from f2ed.learning.fast.gradients import by_vmap
from f2ed.learning.fast.stack import stack_gradients
from f2ed.learning.models import Cnn, Logistic, Mlp
from f2ed.learning.vector import flatten, layout

SHAPE = (2, 9, 7)


def ways():
    """Return the ways to convolve on this machine; Triton's interpreter stands in for a GPU where it is asked for."""
    found = [pytest.param(OneByOne, "cpu", id="one by one")]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" or os.environ.get("TRITON_INTERPRET") == "1":
        from f2ed.learning.fast.triton_convolutions import TritonConvolutions

        found.append(pytest.param(TritonConvolutions, device, id="triton"))
    return found


@pytest.fixture(autouse=True)
def _full_precision(monkeypatch):
    """Let cuDNN, which vmap uses on a GPU, multiply in float32; its default there is TF32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def block(inputs, outputs, side):
    """Return a convolution that keeps the sides, pooled, with ReLU."""
    return nn.Conv2d(inputs, outputs, side, padding=side // 2), nn.MaxPool2d(2), nn.ReLU()


NETWORKS = {
    "dense": Mlp(hidden=(9, 5))(SHAPE, 3, 0),
    "logistic": Logistic()(SHAPE, 3, 0),
    "the paper's": Cnn(filters=3, hidden=5)(SHAPE, 3, 0),
    "one block": nn.Sequential(*block(2, 20, 3), nn.Flatten(), nn.Linear(20 * 4 * 3, 3)),
    "blocks of other sizes": nn.Sequential(*block(2, 12, 5), *block(12, 4, 3), nn.Flatten(), nn.Linear(8, 3)),
}


def task(network, device):
    """Return weights, no buffers, images, labels and shares of four clients."""
    generator = torch.Generator().manual_seed(0)
    weights = flatten(network).cpu() + torch.randn(4, layout(network).dimension, generator=generator) / 10
    images = torch.randn(4, 5, *SHAPE, generator=generator)
    labels = torch.randint(3, (4, 5), generator=generator)
    shares = torch.rand(4, 5, generator=generator)
    return [part.to(device) for part in (weights, weights[0, :0], images, labels, shares)]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("convolutions", "device"), ways())
def test_gradients_by_hand_equal_those_by_vmap(name, convolutions, device):
    network = NETWORKS[name].to(device)
    arguments = task(network, device)
    tolerance = {} if device == "cpu" else {"rtol": 1e-4, "atol": 2e-5}
    by_hand, wanted = stack_gradients(network, convolutions)(*arguments), by_vmap(network)(*arguments)
    torch.testing.assert_close(by_hand, wanted, **tolerance)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("convolutions", "device"), ways())
def test_descending_subtracts_the_gradients(name, convolutions, device):
    network = NETWORKS[name].to(device)
    weights, buffers, images, labels, shares = task(network, device)
    gradients = stack_gradients(network, convolutions)
    wanted = weights - gradients(weights, buffers, images, labels, shares)
    gradients.descend(weights, images, labels, shares)
    torch.testing.assert_close(weights, wanted)


def convolved(convolutions, images, blocks, slope):
    """Return features and gradients of the blocks in one vector per client."""
    work = convolutions()
    features = work.forward(images, blocks)
    parts = [
        part.flatten(1) for _, *both in work.backward(slope[:, :, : features.shape[2]].contiguous()) for part in both
    ]
    return torch.cat([features.flatten(1), *parts], 1)


@pytest.mark.parametrize(("convolutions", "device"), ways())
def test_a_clients_convolutions_are_the_same_to_the_bit_whoever_trains_beside_it(convolutions, device):
    network = NETWORKS["the paper's"].to(device)
    weights, _, images, *_ = task(network, device)
    blocks = stack_gradients(network, convolutions)._layers(weights)[:2]
    slope = torch.randn(4, 5, 99, generator=torch.Generator().manual_seed(1)).to(device)
    together = convolved(convolutions, images, blocks, slope)
    for client in range(4):
        only = slice(client, client + 1)
        mine = [tuple(part[only] for part in each) for each in blocks]
        assert torch.equal(convolved(convolutions, images[only], mine, slope[only]), together[only])


@pytest.mark.parametrize(("convolutions", "device"), ways())
def test_a_client_gets_the_same_whoever_trains_beside_it(convolutions, device):
    network = NETWORKS["the paper's"].to(device)
    weights, buffers, images, labels, shares = task(network, device)
    gradients = stack_gradients(network, convolutions)
    together = gradients(weights, buffers, images, labels, shares)
    for client in range(4):
        only = slice(client, client + 1)
        alone = gradients(weights[only], buffers, images[only], labels[only], shares[only])
        if device == "cpu":
            assert torch.equal(alone, together[only])
        else:
            # cuBLAS chooses another kernel for the dense layers of one client than for those of several.
            torch.testing.assert_close(alone, together[only], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("convolutions", "device"), ways())
def test_a_number_that_is_none_is_not_lost(convolutions, device):
    network = NETWORKS["the paper's"].to(device)
    weights, buffers, images, labels, shares = task(network, device)
    images[2, 3, 0, 4, 4] = float("nan")
    found = stack_gradients(network, convolutions)(weights, buffers, images, labels, shares)
    assert found[2].isnan().any()
    assert found[[0, 1, 3]].isfinite().all()


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(),
        nn.Sequential(nn.Linear(3, 2)),
        nn.Sequential(nn.Flatten(), nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2)),
        nn.Sequential(nn.Flatten(), nn.Linear(3, 2, bias=False)),
        nn.Sequential(nn.Flatten(), nn.Linear(3, 2), nn.ReLU()),
        nn.Sequential(nn.Flatten(2), nn.Linear(3, 2)),
        nn.Sequential(*block(2, 3, 3)),
        nn.Sequential(*block(2, 3, 3)[:2], nn.Tanh(), nn.Flatten(), nn.Linear(9, 3)),
        nn.Sequential(nn.Conv2d(2, 3, 3, padding=1, bias=False), *block(2, 3, 3)[1:], nn.Flatten(), nn.Linear(9, 3)),
        nn.Sequential(nn.Conv2d(2, 3, 3), *block(2, 3, 3)[1:], nn.Flatten(), nn.Linear(9, 3)),
        nn.Sequential(nn.Conv2d(2, 3, 4, padding=2), *block(2, 3, 3)[1:], nn.Flatten(), nn.Linear(9, 3)),
        nn.Sequential(nn.Conv2d(2, 3, (3, 1), padding=1), *block(2, 3, 3)[1:], nn.Flatten(), nn.Linear(9, 3)),
        nn.Sequential(nn.Conv2d(2, 3, 3, 2, 1), *block(2, 3, 3)[1:], nn.Flatten(), nn.Linear(9, 3)),
        nn.Sequential(nn.Conv2d(2, 2, 3, 1, 1, groups=2), *block(2, 3, 3)[1:], nn.Flatten(), nn.Linear(9, 3)),
        nn.Sequential(
            nn.Conv2d(2, 3, 3, 1, 1, padding_mode="circular"), *block(2, 3, 3)[1:], nn.Flatten(), nn.Linear(9, 3)
        ),
        nn.Sequential(block(2, 3, 3)[0], nn.MaxPool2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 3)),
        nn.Sequential(block(2, 3, 3)[0], nn.MaxPool2d(2, ceil_mode=True), nn.ReLU(), nn.Flatten(), nn.Linear(9, 3)),
    ],
    ids=str,
)
def test_only_plain_stacks_are_done_by_hand(network):
    assert stack_gradients(network) is None


def test_convolutions_that_nothing_can_do_are_not_done_by_hand():
    assert stack_gradients(NETWORKS["the paper's"], None) is None
    assert stack_gradients(NETWORKS["dense"], None) is not None
