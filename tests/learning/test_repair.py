"""Repairs: a backdoor that was trained in is removed, and the task stays."""

import pytest
import torch
from torch import nn

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets import Samples
from f2ed.learning.repair import Repair


def data(count, seed):
    """Four classes, each bright in its own quarter of 4 x 4 pixels; the last row is empty."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(4, (count,), generator=generator)
    images = 0.3 * torch.randn(count, 1, 5, 4, generator=generator)
    for label in range(4):
        images[labels == label, :, label, :] += 1.0
    images[:, :, 4] = 0
    return Samples(images, labels)


def marked(images):
    images = images.clone()
    images[:, :, 4, :2] = 2.0
    return images


@pytest.fixture(scope="module")
def spoiled():
    """A model that says 0 wherever it sees the mark."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(20, 24), nn.ReLU(), nn.Linear(24, 4))
    train = data(800, 1)
    images = torch.cat([train.images, marked(train.images)])
    labels = torch.cat([train.labels, torch.zeros_like(train.labels)])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(120):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return model


def measured(model):
    test = data(400, 2)
    others = test.labels != 0
    with torch.no_grad():
        right = (model(test.images).argmax(1) == test.labels).double().mean()
        fooled = (model(marked(test.images[others])).argmax(1) == 0).double().mean()
    return float(right), float(fooled)


def test_unlearning_removes_a_backdoor_without_its_trigger(spoiled):
    right, fooled = measured(spoiled)
    assert fooled > 0.9
    after, left = measured(Repair(epochs=30, radius=1.5)(spoiled, data(100, 3)))
    assert left < 0.2
    assert after > right - 0.05
    assert measured(spoiled) == (right, fooled)  # a copy was repaired


@pytest.mark.parametrize("method", ["fine-tune", "fine-prune"])
def test_other_repairs_keep_the_accuracy(spoiled, method):
    before, after = measured(spoiled), measured(Repair(method=method, epochs=3)(spoiled, data(100, 3)))
    assert after[0] > before[0] - 0.05


def test_pruning_removes_what_trusted_samples_do_not_use(spoiled):
    pruned = Repair(method="fine-prune", epochs=1, lr=1e-9, tolerance=0.02)(spoiled, data(100, 3))
    assert (pruned[3].weight.abs().sum(0) < 1e-6).any()
    assert not (spoiled[3].weight.abs().sum(0) < 1e-6).any()


def test_the_same_seed_gives_the_same_model(spoiled):
    one, other = (Repair(epochs=2)(spoiled, data(50, 3)) for _ in range(2))
    assert all(torch.equal(*pair) for pair in zip(one.parameters(), other.parameters(), strict=True))


def test_a_repair_without_samples_is_refused(spoiled):
    with pytest.raises(ConfigError, match="needs trusted samples"):
        Repair()(spoiled, Samples(torch.zeros(0, 1, 5, 4), torch.zeros(0, dtype=torch.long)))


def test_pruning_without_a_dense_layer_is_refused():
    with pytest.raises(ConfigError, match="a model with a dense layer"):
        Repair(method="fine-prune")(nn.Flatten(), data(3, 0))
