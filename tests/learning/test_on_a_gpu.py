"""On a GPU all clients train at once and get what the reference gives them there; skipped without one."""

import pytest
import torch
from cohorts import ROUND, SEED, Attentive, reference
from torch import nn

from f2ed.learning import batched, cohort
from f2ed.learning.cohort import Cohort
from f2ed.learning.datasets import Synthetic
from f2ed.learning.evaluate import Evaluator
from f2ed.learning.local import Job, Pull, hand_out
from f2ed.learning.models import Cnn, Mlp, ResNet18
from f2ed.learning.optimiser import Training
from f2ed.learning.partition import Dirichlet, Iid
from f2ed.learning.vector import flatten

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

SHAPE = (1, 6, 6)
MODELS = {
    "dense": Mlp(hidden=(9, 5))(SHAPE, 3, 0),
    "convolutions": Cnn(filters=3, hidden=5)(SHAPE, 3, 0),
    "attention": Attentive(),
    "group norm": nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)),
    "batch norm": nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)),
}


def gpu_jobs(training, partition=None, clients=5, **changes):
    train = Synthetic(train=300, test=9, classes=3, side=6)().train.to("cuda")
    dealt = hand_out(train, (partition or Iid())(train.labels.cpu().numpy(), clients, 0))
    return [Job(number, data, training, **changes) for number, data in enumerate(dealt)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("partition", [Iid(), Dirichlet(0.5, least=8)], ids=["replayed", "ragged"])
@pytest.mark.parametrize(
    "training",
    [
        Training(lr=0.05, batch=5, local_epochs=2),
        Training(lr=0.05, batch=5, local_epochs=2, momentum=0.9, weight_decay=0.01),
        Training(lr=0.01, batch=5, local_epochs=2, optimiser="adam"),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_updates_equal_the_reference(name, partition, training):
    network, work = MODELS[name].to("cuda"), gpu_jobs(training, partition)
    train = Cohort(network, device="cuda")
    start = flatten(network)
    updates = train(start, work, seed=SEED, round_=ROUND)
    assert updates.is_cuda
    torch.testing.assert_close(updates, reference(network, work), rtol=1e-3, atol=5e-5)
    assert torch.equal(train(start, work, seed=SEED, round_=ROUND), updates)


def test_clients_of_a_wide_convolutional_model_train_in_turn(monkeypatch):
    network, work = MODELS["group norm"].to("cuda"), gpu_jobs(Training(lr=0.05, batch=5, local_epochs=2))
    monkeypatch.setattr(cohort, "_FILLS_A_GPU", 0)
    groups, real = [], cohort.by_vmap
    monkeypatch.setattr(
        cohort, "by_vmap", lambda model, at_once: groups.append(at_once) or real(model, at_once=at_once)
    )
    updates = Cohort(network, device="cuda")(flatten(network), work, seed=SEED, round_=ROUND)
    torch.testing.assert_close(updates, reference(network, work), rtol=1e-3, atol=5e-5)
    assert groups == [1]


@pytest.mark.parametrize("name", ["dense", "convolutions"])
def test_pulls_and_masks_equal_the_reference(name):
    network = MODELS[name].to("cuda")
    start = flatten(network)
    mask = torch.arange(len(start), device="cuda") % 2 == 0
    work = gpu_jobs(Training(lr=0.05, batch=5, local_epochs=2), pull=Pull(0.5, start + 0.1), mask=mask)
    updates = Cohort(network, device="cuda")(start, work, seed=SEED, round_=ROUND)
    torch.testing.assert_close(updates, reference(network, work), rtol=1e-3, atol=5e-5)


def test_when_memory_runs_out_fewer_clients_train_at_once(monkeypatch):
    network, work = MODELS["dense"].to("cuda"), gpu_jobs(Training(lr=0.05, batch=5))
    tried, real = [], batched._Training

    def small(schedule, *rest):
        tried.append(schedule.clients)
        if schedule.clients > 2:
            raise torch.OutOfMemoryError
        return real(schedule, *rest)

    monkeypatch.setattr(batched, "_Training", small)
    said = []
    updates = Cohort(network, device="cuda", say=said.append)(flatten(network), work, seed=SEED, round_=ROUND)
    torch.testing.assert_close(updates, reference(network, work), rtol=1e-3, atol=5e-5)
    assert tried == [5, 3, 2, 2, 1]
    assert len(said) == 2


def test_scores_equal_those_of_the_cpu():
    samples = Synthetic(test=600, classes=3, side=6)().test
    network = ResNet18(width=4)(SHAPE, 3, 0)
    on_cpu = Evaluator(network).score(flatten(network), samples)
    on_gpu = Evaluator(network, "cuda").score(flatten(network).cuda(), samples.to("cuda"))
    assert on_gpu.loss == pytest.approx(on_cpu.loss, rel=1e-3)
    assert on_gpu.accuracy == pytest.approx(on_cpu.accuracy, abs=0.01)
