"""However many clients are trained at once, each gets what the reference gives it."""

import copy

import pytest
import torch
from torch import nn

from f2ed.attacks import ProximalTerm
from f2ed.learning import cohort as cohort_module
from f2ed.learning.client import ClientData, TrainingJob, TrainingKey, batch_order
from f2ed.learning.cohort import Cohort
from f2ed.learning.datasets import Digits
from f2ed.learning.fast.batch_plan import plan_batches
from f2ed.learning.models import Cnn, Logistic, Mlp
from f2ed.learning.optimizer import Training
from f2ed.learning.vector import flatten, layout
from tests.learning.cohorts import ROUND, SEED, Attentive, Mixing, Noisy, Stateful, digit_jobs, jobs, reference

SHAPE = (1, 6, 6)


def normalized(norm):
    return nn.Sequential(nn.Conv2d(1, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))


MODELS = {
    "dense": Mlp(hidden=(9, 5))(SHAPE, 3, 0),
    "logistic": Logistic()(SHAPE, 3, 0),
    "attention": Attentive(),
    "convolutions": Cnn(filters=3, hidden=5)(SHAPE, 3, 0),
    "group norm": normalized(nn.GroupNorm(2, 4)),
    "batch norm": normalized(nn.BatchNorm2d(4)),
    "dense batch norm": nn.Sequential(
        nn.Flatten(), nn.Linear(36, 4), nn.BatchNorm1d(4, momentum=None), nn.Linear(4, 3)
    ),
    "dropout": Noisy(),
    "data-dependent": Stateful(),
    "samples mixed": Mixing(),
}
PATHS = {
    "dense": "by hand",
    "logistic": "by hand",
    "convolutions": "by hand",
    "attention": "vmap",
    "dropout": "one by one",
}


def run(network, work, **settings):
    cohort = Cohort(network, **settings)
    return cohort(flatten(network), work, seed=SEED, round_=ROUND)


@pytest.mark.parametrize("name", MODELS)
def test_every_path_equals_the_reference_for_clients_of_unequal_sizes(name):
    network, work = MODELS[name], jobs(Training(lr=0.05, batch_size=5, local_epochs=2))
    if name == "dense batch norm":
        # It refuses batches of one sample.
        work = [job for job in work if len(job.data) % 5 != 1]
    said = []
    cohort = Cohort(network, workers=2, notify=said.append)
    updates = cohort(flatten(network), work, seed=SEED, round_=ROUND)
    torch.testing.assert_close(updates, reference(network, work), rtol=1e-3, atol=2e-5)
    assert cohort.path == PATHS.get(name, "workers")
    assert bool(said) == (name in {"dropout", "dense batch norm", "data-dependent", "samples mixed"})


@pytest.mark.parametrize("name", ["dense", "attention", "convolutions"])
@pytest.mark.parametrize(
    "training",
    [
        Training(lr=0.05, batch_size=5, momentum=0.9, weight_decay=0.01),
        Training(lr=0.01, batch_size=7, optimizer="adam", local_epochs=2),
        Training(lr=0.05, batch_size=5, local_epochs=2, proximal=2.0),
    ],
    ids=str,
)
def test_every_path_equals_the_reference_for_every_optimizer(name, training):
    work = jobs(training)
    torch.testing.assert_close(run(MODELS[name], work), reference(MODELS[name], work), rtol=1e-3, atol=2e-5)


def test_a_proximal_term_keeps_clients_near_the_global_model_as_in_its_paper():
    network, data = MODELS["dense"], jobs()[0].data
    training = Training(lr=0.05, batch_size=5, local_epochs=3, proximal=1.5)
    job = TrainingJob(0, data, training)
    found = run(network, [job])[0]
    model, start = copy.deepcopy(network), [weights.detach().clone() for weights in network.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in batch_order(TrainingKey(SEED, ROUND, 0), len(data), 3):
        for at in range(0, len(data), 5):
            rows = torch.from_numpy(epoch[at : at + 5])
            loss = torch.nn.functional.cross_entropy(model(data.samples.images[rows]), data.labels[rows])
            away = sum((w - w0).square().sum() for w, w0 in zip(model.parameters(), start, strict=True))
            optimizer.zero_grad()
            (loss + 1.5 / 2 * away).backward()
            optimizer.step()
    torch.testing.assert_close(found, flatten(model) - flatten(network), rtol=1e-3, atol=2e-5)
    free = run(network, [TrainingJob(0, data, Training(lr=0.05, batch_size=5, local_epochs=3))])[0]
    assert found.norm() < free.norm()


def test_an_attackers_own_pull_replaces_that_of_the_settings():
    network, data = MODELS["dense"], jobs()[0].data
    pull = ProximalTerm(0.5, flatten(network) + 0.1)
    plain = TrainingJob(0, data, Training(lr=0.05, batch_size=5), proximal=pull)
    both = TrainingJob(0, data, Training(lr=0.05, batch_size=5, proximal=2.0), proximal=pull)
    assert torch.equal(run(network, [plain]), run(network, [both]))
    mixed = run(network, [plain, TrainingJob(1, data, both.training), TrainingJob(2, data, plain.training)])
    assert torch.equal(mixed[:1], run(network, [plain]))


@pytest.mark.parametrize("name", ["dense", "attention", "convolutions"])
def test_attackers_own_starts_pulls_and_masks_equal_the_reference(name):
    network = MODELS[name]
    dimension = layout(network).dimension
    work = jobs()
    generator = torch.Generator().manual_seed(0)
    start = flatten(network) + 0.01 * torch.randn(dimension, generator=generator)
    # Buffers are never trained, so an own start must not change them either.
    start[layout(network).trained :] = flatten(network)[layout(network).trained :]
    mask = torch.rand(dimension, generator=generator) < 0.5
    work[1] = TrainingJob(1, work[1].data, work[1].training, start=start, repeat=1)
    work[2] = TrainingJob(2, work[2].data, work[2].training, proximal=ProximalTerm(0.5, start))
    work[4] = TrainingJob(4, work[4].data, Training(lr=0.2, batch_size=3), mask=mask)
    torch.testing.assert_close(run(network, work), reference(network, work), rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("name", ["dense", "attention", "convolutions", "batch norm", "dropout"])
def test_updates_are_the_same_bits_for_any_number_of_workers_and_any_company(name, monkeypatch):
    network, work = MODELS[name], jobs()
    one = run(network, work, workers=1)
    assert torch.equal(run(network, work, workers=3), one)
    assert torch.equal(run(network, work[::-1]), one.flip(0))
    monkeypatch.setattr(cohort_module, "_COORDINATES_AT_ONCE", 1)
    assert torch.equal(run(network, work), one)


def test_another_seed_or_round_gives_other_updates():
    network, work = MODELS["dense"], jobs()
    cohort, start = Cohort(network), flatten(network)
    base = cohort(start, work, seed=1, round_=1)
    assert not torch.equal(cohort(start, work, seed=2, round_=1), base)
    assert not torch.equal(cohort(start, work, seed=1, round_=2), base)
    assert torch.equal(cohort(start, work, seed=1, round_=1), base)


def test_changed_labels_and_a_pool_of_ones_own_train_along():
    network, work = MODELS["dense"], jobs()
    data = work[1].data
    work[1] = TrainingJob(1, ClientData(data.pool, data.rows, 2 - data.labels), work[1].training)
    work[2] = TrainingJob(2, ClientData.of(work[2].data.samples), work[2].training)
    torch.testing.assert_close(run(network, work), reference(network, work), rtol=1e-3, atol=2e-5)


def test_a_real_model_on_real_digits_equals_the_reference():
    network = Cnn()((1, 8, 8), 10, 0)
    work = digit_jobs(Training(lr=0.05, batch_size=10), count=2)
    torch.testing.assert_close(run(network, work), reference(network, work), rtol=1e-3, atol=2e-5)


def test_pixels_far_above_one_do_not_change_the_path():
    network, digits, said = Cnn()((1, 8, 8), 10, 0), Digits()().train, []
    bright = ClientData(800 * digits.images[:40], torch.arange(40), digits.labels[:40])
    work = [TrainingJob(0, bright, Training(lr=1e-6, batch_size=10))]
    cohort = Cohort(network, notify=said.append)
    updates = cohort(flatten(network), work, seed=SEED, round_=ROUND)
    torch.testing.assert_close(updates, reference(network, work), rtol=1e-3, atol=2e-5)
    assert (cohort.path, said) == ("by hand", [])


def test_it_is_said_if_the_fastest_path_is_not_taken(monkeypatch):
    complaints = iter(["its gradients differ by up to 3", None])
    monkeypatch.setattr(cohort_module, "disagreement", lambda *_: next(complaints))
    network, work, said = MODELS["dense"], jobs(), []
    cohort = Cohort(network, workers=2, notify=said.append)
    cohort(flatten(network), work, seed=SEED, round_=ROUND)
    assert cohort.path == "vmap"
    assert said == [
        "clients are trained by vmap: by hand cannot be used for this model (its gradients differ by up to 3)"
    ]


def test_no_jobs_give_no_rows():
    network = MODELS["dense"]
    assert run(network, []).shape == (0, layout(network).dimension)


def test_the_model_given_and_torchs_threads_are_left_as_they_were():
    network = Mlp(hidden=(4,))(SHAPE, 3, 0).eval()
    before, threads = flatten(network), torch.get_num_threads()
    run(network, jobs(), workers=2)
    assert torch.equal(flatten(network), before)
    assert not network.training
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("name", ["convolutions", "batch norm"])
def test_a_failure_in_a_worker_is_raised(name):
    network, work = MODELS[name], jobs()
    data = work[3].data
    work[3] = TrainingJob(3, ClientData(data.pool, data.rows, data.labels + 7), work[3].training)
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        run(network, work, workers=2)


def test_a_schedule_takes_every_sample_once_per_epoch_and_weighs_short_batches_right():
    work = jobs(Training(batch_size=5, local_epochs=2), sizes=(7, 12))
    (schedule,) = plan_batches(work, SEED, ROUND)
    assert schedule.places == (1, 0)
    assert schedule.active == (2, 2, 2, 2, 1, 1)
    assert schedule.index.shape == (6, 2, 5)
    for at, size in enumerate((12, 7)):
        steps = -(-size // 5)
        for epoch in range(2):
            part = slice(epoch * steps, (epoch + 1) * steps)
            taken = schedule.index[part, at][schedule.shares[part, at] > 0]
            assert sorted(taken.tolist()) == work[schedule.places[at]].data.rows.tolist()
            torch.testing.assert_close(schedule.shares[part, at].sum(1), torch.ones(steps))
