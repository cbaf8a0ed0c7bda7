"""The reference trains as PyTorch would, the same each time, and can be led astray only as asked."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from f2ed.attacks import ProximalTerm
from f2ed.core.errors import ConfigError
from f2ed.learning.client import ClientData, LocalTrainer, TrainingKey, batch_order
from f2ed.learning.models import Cnn, Logistic
from f2ed.learning.optimizer import Training
from f2ed.learning.vector import flatten, layout
from tests.learning.cohorts import ROUND, SEED, Noisy, clients, jobs, reference

SHAPE = (1, 6, 6)
CONVOLVING = Cnn(filters=3, hidden=5)(SHAPE, 3, 0)
NORMALISED = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, momentum=None), nn.Flatten(), nn.Linear(64, 3))


def plain_training(network, data, training, key):
    """Train as a PyTorch tutorial would."""
    optimizer = torch.optim.SGD(network.parameters(), training.lr, training.momentum)
    before = flatten(network)
    for order in batch_order(key, len(data), training.local_epochs):
        images, labels = data.samples.images[order], data.samples.labels[order]
        for at in range(0, len(order), training.batch_size):
            optimizer.zero_grad()
            scores = network(images[at : at + training.batch_size])
            nn.functional.cross_entropy(scores, labels[at : at + training.batch_size]).backward()
            optimizer.step()
    return flatten(network) - before


@pytest.mark.parametrize("network", [Logistic()(SHAPE, 3, 0), CONVOLVING, NORMALISED], ids=["dense", "conv", "norm"])
def test_a_client_trains_as_plain_pytorch_does(network):
    training = Training(lr=0.05, batch_size=5, local_epochs=2, momentum=0.5)
    job = jobs(training)[0]
    network = copy.deepcopy(network)
    ours = reference(network, [job])[0]
    theirs = plain_training(network, job.data, training, TrainingKey(SEED, ROUND, 0))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    assert ours.abs().max() > 1e-3


def test_the_order_of_batches_is_a_permutation_keyed_by_seed_round_client_time_and_epoch():
    base = batch_order(TrainingKey(1, 2, 3), 50, 2)
    assert all(np.array_equal(np.sort(order), np.arange(50)) for order in base)
    assert np.array_equal(base, batch_order(TrainingKey(1, 2, 3, 0), 50, 2))
    assert np.array_equal(base[:1], batch_order(TrainingKey(1, 2, 3), 50, 1))
    others = [
        base[1],
        *(
            batch_order(key, 50, 1)[0]
            for key in (TrainingKey(0, 2, 3), TrainingKey(1, 0, 3), TrainingKey(1, 2, 0), TrainingKey(1, 2, 3, 1))
        ),
    ]
    assert not any(np.array_equal(base[0], other) for other in others)


@pytest.mark.parametrize("network", [Noisy(), NORMALISED], ids=["dropout", "batch norm"])
def test_training_repeats_to_the_bit_whatever_was_trained_before(network):
    work, start = jobs(), flatten(network)
    local = LocalTrainer(network)
    key = TrainingKey(SEED, ROUND, 0)
    first = local.train(start, work[0], key)
    local.train(start, work[2], TrainingKey(SEED, ROUND, 2))
    assert torch.equal(local.train(start, work[0], key), first)
    assert torch.equal(reference(network, work[:1])[0], first)


def test_the_model_and_pytorchs_random_numbers_are_left_alone():
    network = Noisy().eval()
    before, state = flatten(network), torch.get_rng_state()
    reference(network, jobs()[:1])
    assert torch.equal(flatten(network), before)
    assert torch.equal(torch.get_rng_state(), state)
    assert not network.training


@pytest.mark.parametrize("channels_last", [False, True])
def test_where_the_mask_is_false_weights_stay_even_under_weight_decay(channels_last):
    network = CONVOLVING
    mask = torch.arange(layout(network).dimension) % 3 == 0
    training = Training(lr=0.1, momentum=0.9, weight_decay=0.1)
    (job,) = jobs(training, sizes=(12,), mask=mask)
    update = LocalTrainer(network, channels_last=channels_last).train(flatten(network), job, TrainingKey(0, 0, 0))
    assert update[~mask].eq(0).all()
    assert update[mask].ne(0).float().mean() > 0.8


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_strong_pull_leads_to_its_centre(channels_last):
    network = CONVOLVING
    start = flatten(network)
    center = torch.randn(len(start), generator=torch.Generator().manual_seed(1))
    (job,) = jobs(Training(lr=1e-4, batch_size=1), sizes=(3,), proximal=ProximalTerm(1e4, center))
    update = LocalTrainer(network, channels_last=channels_last).train(start, job, TrainingKey(0, 0, 0))
    torch.testing.assert_close(start + update, center, rtol=0, atol=0.05)


def test_a_start_of_ones_own_takes_the_place_of_the_global_weights():
    network = Logistic()(SHAPE, 3, 0)
    own = torch.ones(layout(network).dimension)
    (job,) = jobs(sizes=(12,))
    (from_own,) = jobs(sizes=(12,), start=own)
    local = LocalTrainer(network)
    assert torch.equal(
        local.train(flatten(network), from_own, TrainingKey(0, 0, 0)), local.train(own, job, TrainingKey(0, 0, 0))
    )


def test_weights_of_the_wrong_length_are_refused():
    network = Logistic()(SHAPE, 3, 0)
    with pytest.raises(ConfigError, match="but the model needs"):
        LocalTrainer(network).train(torch.zeros(3), jobs()[0], TrainingKey(0, 0, 0))


def test_a_client_without_samples_is_refused():
    data = clients()[0]
    with pytest.raises(ConfigError, match="without samples"):
        ClientData(data.pool, data.rows[:0], data.labels[:0])
    with pytest.raises(ConfigError, match="images but 1 labels"):
        ClientData(data.pool, data.rows, data.labels[:1])
