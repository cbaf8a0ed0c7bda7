"""The gradients of many clients at once are those of each, by either way."""

import pytest
import torch
from torch import nn

from f2ed.learning.fast.gradients import by_vmap, one_by_one
from f2ed.learning.vector import flatten, layout
from tests.learning.cohorts import Attentive


@pytest.mark.parametrize(
    "network",
    [Attentive(), nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(64, 3))],
    ids=["attention", "convolutions"],
)
def test_both_ways_have_the_same_gradients(network):
    trained = layout(network).trained
    start = flatten(network)
    weights = start[:trained] + torch.randn(4, trained) / 10
    images, labels, shares = torch.randn(4, 5, 1, 6, 6), torch.randint(3, (4, 5)), torch.rand(4, 5)
    arguments = weights, start[trained:], images, labels, shares
    found = by_vmap(network)(*arguments)
    torch.testing.assert_close(one_by_one(network)(*arguments), found)
    for row in range(4):
        alone = tuple(part[row : row + 1] for part in (weights, images, labels, shares))
        torch.testing.assert_close(found[row], by_vmap(network)(alone[0], start[trained:], *alone[1:])[0])
