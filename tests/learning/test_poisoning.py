"""Attacks train through the cohort, with settings of their own."""

import pytest
import torch
from torch import nn

from f2ed.attacks import Examples, ProximalTerm, TrainingOverrides
from f2ed.learning.client import TrainingJob
from f2ed.learning.cohort import Cohort
from f2ed.learning.models import Logistic
from f2ed.learning.optimizer import Training
from f2ed.learning.poisoning import MaliciousTraining, _with_overrides, honest_settings
from f2ed.learning.vector import flatten
from tests.learning.cohorts import ROUND, SEED, jobs, reference

TRAINING = Training(lr=0.1, batch_size=5, local_epochs=2)
NETWORK = Logistic()((1, 6, 6), 3, 0)


@pytest.fixture
def train():
    return MaliciousTraining(Cohort(NETWORK), flatten(NETWORK), [2, 4], TRAINING, SEED, ROUND)


@pytest.fixture
def work():
    return [job for job in jobs(TRAINING) if job.client in {2, 4}]


WITH_DROPOUT = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 3))


def examples(work):
    return [Examples(*vars(job.data.samples).values()) for job in work]


def test_honest_settings_give_what_the_clients_would_have_trained(train, work):
    torch.testing.assert_close(train(examples(work)), reference(NETWORK, work), rtol=1e-3, atol=2e-5)


def test_overrides_start_proximal_term_and_mask_reach_the_clients(train, work):
    start, mask = torch.randn(2, 111), torch.rand(2, 111) < 0.5
    overrides = TrainingOverrides(epochs=1, lr=0.3, momentum=0.5, weight_decay=0.1, batch_size=4)
    found = train(
        examples(work), overrides=overrides, start=start.numpy(), proximal=ProximalTerm(0.2, start[0]), mask=mask
    )
    training = Training(lr=0.3, batch_size=4, local_epochs=1, momentum=0.5, weight_decay=0.1)
    wanted = [
        TrainingJob(
            job.client, job.data, training, start=start[at], proximal=ProximalTerm(0.2, start[0]), mask=mask[at]
        )
        for at, job in enumerate(work)
    ]
    torch.testing.assert_close(found, reference(NETWORK, wanted), rtol=1e-3, atol=2e-5)


def test_a_second_call_takes_batches_in_another_order(train, work):
    assert not torch.equal(train(examples(work)), train(examples(work)))


def test_momentum_asked_for_means_sgd():
    train = MaliciousTraining(Cohort(NETWORK), flatten(NETWORK), [2], Training(lr=0.1, optimizer="adam"), SEED, ROUND)
    work = jobs(Training(lr=0.1, momentum=0.9))[2:3]
    found = train(examples(work), overrides=TrainingOverrides(momentum=0.9))
    torch.testing.assert_close(found, reference(NETWORK, work), rtol=1e-3, atol=2e-5)


def test_the_honest_schedule_has_no_gaps():
    assert honest_settings(TRAINING) == TrainingOverrides(
        epochs=2, lr=0.1, momentum=0.0, weight_decay=0.0, batch_size=5, optimizer="sgd"
    )


@pytest.mark.parametrize(
    ("honest", "asked", "expected"),
    [
        ({}, {"optimizer": "adam", "momentum": 0.0}, ("adam", 0.0)),
        ({"optimizer": "adam"}, {"optimizer": "sgd"}, ("sgd", 0.0)),
        ({"optimizer": "adam"}, {"momentum": 0.9}, ("sgd", 0.9)),
        ({"momentum": 0.5}, {"lr": 0.1}, ("sgd", 0.5)),
    ],
)
def test_an_attack_trains_with_the_optimizer_it_asks_for(honest, asked, expected):
    settled = _with_overrides(Training(**honest), TrainingOverrides(**asked))
    assert (settled.optimizer, settled.momentum) == expected


def test_slopes_are_the_gradients_of_the_loss_with_respect_to_the_images():
    images, labels = torch.rand(3, 1, 4, 4, generator=torch.manual_seed(0)), torch.tensor([0, 1, 2])
    at_work = MaliciousTraining(Cohort(WITH_DROPOUT), flatten(WITH_DROPOUT), [2], TRAINING, SEED, ROUND)
    for model in (None, 2 * flatten(WITH_DROPOUT)):
        found = at_work.slopes(images, labels, model=model)
        scale = 1 if model is None else 2
        shown = images.clone().requires_grad_()
        scores = scale * (shown.flatten(1) @ WITH_DROPOUT[2].weight.T + WITH_DROPOUT[2].bias)
        (wanted,) = torch.autograd.grad(torch.nn.functional.cross_entropy(scores, labels, reduction="sum"), shown)
        torch.testing.assert_close(found, wanted)
    assert at_work.cohort.model.training  # only a copy of it is in evaluation mode
