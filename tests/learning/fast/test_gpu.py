"""On a GPU all clients train at once and get what the reference gives them there; skipped without one."""

import pytest
import torch
from torch import nn

from f2ed.attacks import ProximalTerm
from f2ed.learning import cohort
from f2ed.learning.client import TrainingJob, split_samples
from f2ed.learning.cohort import Cohort
from f2ed.learning.datasets import Synthetic
from f2ed.learning.evaluate import Evaluator
from f2ed.learning.fast import batched
from f2ed.learning.models import Cnn, Mlp, ResNet18
from f2ed.learning.optimizer import Training
from f2ed.learning.partition import Dirichlet, Iid
from f2ed.learning.vector import flatten
from tests.learning.cohorts import ROUND, SEED, Attentive, reference

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

SHAPE = (1, 6, 6)
MODELS = {
    "dense": Mlp(hidden=(9, 5))(SHAPE, 3, 0),
    "convolutions": Cnn(filters=3, hidden=5)(SHAPE, 3, 0),
    "attention": Attentive(),
    "group norm": nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)),
    "batch norm": nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)),
}


def gpu_jobs(training, partition=None, clients=5, side=6, **changes):
    train = Synthetic(train=300, test=9, classes=3, side=side)().train.to("cuda")
    assigned = split_samples(train, (partition or Iid())(train.labels.cpu().numpy(), clients, 0))
    return [TrainingJob(number, data, training, **changes) for number, data in enumerate(assigned)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("partition", [Iid(), Dirichlet(0.5, min_samples=8)], ids=["replayed", "ragged"])
@pytest.mark.parametrize(
    "training",
    [
        Training(lr=0.05, batch_size=5, local_epochs=2),
        Training(lr=0.05, batch_size=5, local_epochs=2, momentum=0.9, weight_decay=0.01),
        Training(lr=0.01, batch_size=5, local_epochs=2, optimizer="adam"),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_updates_equal_the_reference(name, partition, training):
    network, work = MODELS[name].to("cuda"), gpu_jobs(training, partition)
    train = Cohort(network, device="cuda")
    start = flatten(network)
    updates = train(start, work, seed=SEED, round_=ROUND)
    assert updates.is_cuda
    wanted = reference(network, work)
    if train.path == "stacked":
        # A unit of ReLU close to zero may be on either side of it.
        assert float((updates - wanted).norm() / wanted.norm()) < 5e-3
    else:
        torch.testing.assert_close(updates, wanted, rtol=1e-3, atol=5e-5)
    assert torch.equal(train(start, work, seed=SEED, round_=ROUND), updates)


@pytest.fixture
def wide(monkeypatch):
    """Count every convolutional model as one that fills the GPU, and that cannot be stacked."""
    monkeypatch.setattr(cohort, "_FILLS_A_GPU", 0)
    monkeypatch.setattr(cohort, "_layers_for_a_gpu", lambda: None)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("partition", [Iid(), Dirichlet(0.5, min_samples=8)], ids=["equal", "ragged"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_clients_of_a_wide_convolutional_model_take_turns_and_replay_one_step(partition, momentum, monkeypatch):
    network = MODELS["group norm"].to("cuda")
    honest = gpu_jobs(Training(lr=0.05, batch_size=5, local_epochs=2, momentum=momentum), partition)
    other = gpu_jobs(Training(lr=0.02, batch_size=5), partition, clients=3)
    recorded, real = [], batched._Recording
    monkeypatch.setattr(batched, "_LANES", 3)
    monkeypatch.setattr(batched, "_Recording", lambda *given: recorded.append(given) or real(*given))
    train = Cohort(network, device="cuda")
    start = flatten(network)
    updates = train(start, [*honest, *other], seed=SEED, round_=ROUND)
    assert train.path == "in turn"
    torch.testing.assert_close(updates, reference(network, [*honest, *other]), rtol=1e-3, atol=5e-5)
    assert torch.equal(train(start, [*honest, *other], seed=SEED, round_=ROUND), updates)
    assert len(recorded) == 6


@pytest.mark.parametrize("path", ["stacked", "in turn"])
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_less_precision_is_used_only_where_it_is_allowed(precision, path, request):
    if path == "in turn":
        request.getfixturevalue("wide")
    # Libraries use tensor cores only for convolutions of some size.
    network = ResNet18(width=32)((1, 16, 16), 3, 0).to("cuda")
    start = flatten(network)
    exact, again, rough = (
        Cohort(network, device="cuda")(
            start, gpu_jobs(Training(lr=0.001, batch_size=20, precision=given), side=16), seed=SEED, round_=ROUND
        )
        for given in (None, None, precision)
    )
    # torch's own convolutions add in an order that varies, and this network amplifies it.
    apart, lost = (float((other - exact).norm() / exact.norm()) for other in (again, rough))
    assert apart < 0.02
    assert max(1e-5, 3 * apart) < lost < 0.5


@pytest.mark.parametrize("partition", [Iid(), Dirichlet(5, min_samples=6)], ids=["equal", "ragged"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_clients_of_a_residual_network_are_stacked(partition, momentum, monkeypatch):
    monkeypatch.setattr(batched, "_WORTH_RECORDING", 1)
    # Few and short steps: over many, rounding alone makes torch's own float32 and float64 differ by half.
    network = ResNet18(width=16)((1, 16, 16), 3, 0).to("cuda")
    work = gpu_jobs(Training(lr=0.001, batch_size=5, momentum=momentum), partition, clients=20, side=16)
    train = Cohort(network, device="cuda")
    start = flatten(network)
    updates = train(start, work, seed=SEED, round_=ROUND)
    assert train.path == "stacked"
    wanted = reference(network, work)
    # A unit of ReLU close to zero may be on either side of it.
    assert float((updates - wanted).norm() / wanted.norm()) < 0.05
    assert torch.equal(train(start, work, seed=SEED, round_=ROUND), updates)


@pytest.mark.usefixtures("wide")
def test_pulls_masks_and_starts_of_a_wide_model_equal_the_reference():
    network = MODELS["group norm"].to("cuda")
    start = flatten(network)
    training, mask = Training(lr=0.05, batch_size=5, local_epochs=2), torch.arange(len(start), device="cuda") % 2 == 0
    work = gpu_jobs(training, start=start + 0.01) + gpu_jobs(
        training, proximal=ProximalTerm(0.5, start + 0.1), mask=mask
    )
    updates = Cohort(network, device="cuda")(start, work, seed=SEED, round_=ROUND)
    torch.testing.assert_close(updates, reference(network, work), rtol=1e-3, atol=5e-5)


@pytest.mark.usefixtures("wide")
def test_a_wide_model_that_looks_at_values_is_not_recorded():
    class Moody(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(64, 3))

        def forward(self, images):
            scores = self.net(images)
            return scores * 2 if float(images.sum()) > 0 else scores

    network, work = Moody().to("cuda"), gpu_jobs(Training(lr=0.05, batch_size=5, local_epochs=2))
    train = Cohort(network, device="cuda")
    updates = train(flatten(network), work, seed=SEED, round_=ROUND)
    assert train.path == "workers"
    torch.testing.assert_close(updates, reference(network, work), rtol=1e-3, atol=5e-5)


@pytest.mark.parametrize("name", ["dense", "convolutions"])
def test_pulls_and_masks_equal_the_reference(name):
    network = MODELS[name].to("cuda")
    start = flatten(network)
    mask = torch.arange(len(start), device="cuda") % 2 == 0
    work = gpu_jobs(Training(lr=0.05, batch_size=5, local_epochs=2), proximal=ProximalTerm(0.5, start + 0.1), mask=mask)
    updates = Cohort(network, device="cuda")(start, work, seed=SEED, round_=ROUND)
    torch.testing.assert_close(updates, reference(network, work), rtol=1e-3, atol=5e-5)


def test_when_memory_runs_out_fewer_clients_train_at_once(monkeypatch):
    network, work = MODELS["dense"].to("cuda"), gpu_jobs(Training(lr=0.05, batch_size=5))
    tried, real = [], batched._Training

    def small(schedule, *rest):
        tried.append(schedule.clients)
        if schedule.clients > 2:
            raise torch.OutOfMemoryError
        return real(schedule, *rest)

    monkeypatch.setattr(batched, "_Training", small)
    said = []
    updates = Cohort(network, device="cuda", notify=said.append)(flatten(network), work, seed=SEED, round_=ROUND)
    torch.testing.assert_close(updates, reference(network, work), rtol=1e-3, atol=5e-5)
    assert tried == [5, 3, 2, 1]  # the second two train on the recording of the first
    assert len(said) == 2


def test_scores_equal_those_of_the_cpu():
    samples = Synthetic(test=600, classes=3, side=6)().test
    network = ResNet18(width=4, norm="batch")(SHAPE, 3, 0)
    on_cpu = Evaluator(network).score(flatten(network), samples)
    on_gpu = Evaluator(network, "cuda").score(flatten(network).cuda(), samples.to("cuda"))
    assert on_gpu.loss == pytest.approx(on_cpu.loss, rel=1e-3)
    assert on_gpu.accuracy == pytest.approx(on_cpu.accuracy, abs=0.01)
