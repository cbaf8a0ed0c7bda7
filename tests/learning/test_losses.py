"""Losses besides cross-entropy: every training path equals the reference, and targets that do not fit are refused."""

import numpy as np
import pytest
import torch
from torch import nn

from f2ed.core.errors import ConfigError
from f2ed.learning import Cohort, Evaluator, LocalTrainer, TrainingJob, TrainingKey, flatten, split_samples
from f2ed.learning.datasets.tables import data_of
from f2ed.learning.losses import Bce, CrossEntropy, ImportedLoss, Mse, NextToken, metric_of
from f2ed.learning.models import Mlp
from f2ed.learning.optimizer import Training
from f2ed.learning.partition import Assigned

SIZES = (23, 7, 40, 1, 12)
RNG = np.random.default_rng(3)
X = RNG.normal(size=(100, 6)).astype(np.float32)
TOKENS = RNG.integers(0, 5, size=(100, 7))


class Letters(nn.Module):
    """Predicts the next token from the current one."""

    def __init__(self):
        super().__init__()
        self.known, self.out = nn.Embedding(5, 4), nn.Linear(4, 5)

    def forward(self, tokens):
        return self.out(self.known(tokens))


def focal(outputs, targets, power=2.0):
    right = torch.softmax(outputs, 1).gather(1, targets[:, None])[:, 0]
    return (-((1 - right) ** power) * right.log()).mean()


def coupled(outputs, targets):
    return (outputs[:, 0] - targets).std(correction=0) + (outputs[:, 0] - targets).abs().mean()


def own(function, **settings):
    return ImportedLoss(f"{__name__}:{function.__name__}", settings)


TASKS = {
    "mse": (Mse(), X, X[:, :1].copy() ** 2),
    "mse, one number": (Mse(), X, X[:, 0] ** 2),
    "bce": (Bce(), X, (X[:, :3] > 0).astype(int)),
    "next-token": (NextToken(), TOKENS[:, :-1], TOKENS[:, 1:]),
    "own": (own(focal, power=1.5), X, (X[:, 0] > 0).astype(int)),
    "torch's": (ImportedLoss("torch.nn:HuberLoss", {"delta": 0.5}), X, X[:, :1].copy()),
    "own, over the whole batch": (own(coupled), X, X[:, 0].copy()),
}
PATHS = {"own, over the whole batch": "workers"}


def prepared(name):
    loss, x, y = TASKS[name]
    data = data_of(x, y, x[:20], y[:20])
    model = Letters() if isinstance(loss, NextToken) else Mlp((8,))(data.shape, loss.outputs(data), 0)
    return loss, data, model


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_every_path_equals_the_reference(name, optimizer):
    loss, data, model = prepared(name)
    ends = np.cumsum(SIZES)
    rows = tuple(tuple(range(end - size, end)) for size, end in zip(SIZES, ends, strict=True))
    clients = split_samples(data.train, Assigned(clients=rows)(np.zeros(100), len(SIZES), 0))
    training = Training(lr=0.05, batch_size=8, local_epochs=2, optimizer=optimizer)
    work = [TrainingJob(client, mine, training) for client, mine in enumerate(clients)]
    cohort = Cohort(model, loss=loss, workers=2)
    found = cohort(flatten(model), work, seed=1, round_=2)
    wanted = [LocalTrainer(model, loss=loss).train(flatten(model), job, TrainingKey(1, 2, job.client)) for job in work]
    torch.testing.assert_close(found, torch.stack(wanted), rtol=1e-3, atol=2e-5)
    assert cohort.path == PATHS.get(name, "vmap")


@pytest.mark.parametrize("name", sorted(TASKS.keys() - PATHS.keys()))
def test_the_loss_of_a_batch_is_the_mean_over_its_samples(name):
    loss, data, model = prepared(name)
    outputs, targets = model(data.test.images), data.test.labels
    torch.testing.assert_close(loss.each(outputs, targets).mean(), loss(outputs, targets))


def test_values_worked_by_hand():
    two = torch.tensor([[1.0, 3.0], [0.0, 0.0]])
    assert float(Mse()(two, torch.zeros(2, 2))) == 2.5
    assert float(Mse()(torch.tensor([[2.0]]), torch.tensor([0.0]))) == 4.0
    assert float(Bce()(torch.zeros(1, 2), torch.tensor([[0, 1]]))) == pytest.approx(np.log(2))
    assert float(NextToken()(torch.zeros(1, 3, 4), torch.zeros(1, 3, dtype=torch.int64))) == pytest.approx(np.log(4))
    assert Bce().accuracy(torch.tensor([[1.0, -1.0]]), torch.tensor([[1.0, 1.0]])) == 0.5
    assert float(metric_of("rmse")(two, torch.zeros(2, 2))) == pytest.approx(2.5**0.5)
    assert float(metric_of("mae")(two, torch.zeros(2, 2))) == 1.0


def test_the_evaluator_reports_what_the_loss_has():
    loss, data, model = prepared("mse")
    score = Evaluator(model, loss=loss).score(flatten(model), data.test)
    assert score.accuracy is None
    assert score.metric == pytest.approx(score.loss**0.5)
    loss, data, model = prepared("own")
    score = Evaluator(model, loss=loss).score(flatten(model), data.test)
    assert 0 <= score.accuracy <= 1
    assert score.metric is None


FLOATS = data_of(X, X[:, 0], X, X[:, 0])
CLASSES = data_of(X, np.arange(100) % 3, X, np.arange(100) % 3)
WORDS = data_of(X, np.arange(100) - 50, X, np.arange(100) - 50)


@pytest.mark.parametrize(
    ("loss", "data", "sentence"),
    [
        (CrossEntropy(), FLOATS, r"needs one class per sample, and found targets of shape \(100,\) and type float32"),
        (Mse(), WORDS, "words or negative integers; give floats"),
        (Bce(), CLASSES, "bce needs 0 or 1 for each label"),
        (NextToken(), CLASSES, "needs the token after each position"),
        (NextToken(), FLOATS, "needs the token after each position"),
    ],
)
def test_targets_that_do_not_fit_are_refused(loss, data, sentence):
    with pytest.raises(ConfigError, match=sentence):
        loss.outputs(data)


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (ImportedLoss("torch:nowhere"), "has no nowhere"),
        (ImportedLoss("math:pi"), "is a float; it must be a function or a class"),
        (ImportedLoss("torch.nn:HuberLoss", {"bent": 1}), "cannot be made with"),
        (ImportedLoss("torch:sub"), r"a tensor of shape \(2,\); it must return the mean loss"),
    ],
)
def test_a_loss_of_your_own_that_cannot_be_used_is_refused(loss, sentence):
    with pytest.raises(ConfigError, match=sentence):
        loss(torch.ones(2), torch.ones(2))


@pytest.mark.parametrize(
    ("name", "sentence"), [("f1", "there is no 'f1'; choose from rmse, mae"), ("math:pi", "must be a function")]
)
def test_a_metric_that_cannot_be_used_is_refused(name, sentence):
    with pytest.raises(ConfigError, match=sentence):
        metric_of(name)


def test_targets_keep_their_values():
    assert FLOATS.train.labels.dtype == torch.float32
    assert FLOATS.classes == 1
    tokens = data_of(TOKENS[:, :-1], TOKENS[:, 1:], TOKENS[:3, :-1], TOKENS[:3, 1:])
    assert tokens.train.labels.dtype == torch.int64
    assert tokens.classes == 5
    with pytest.raises(ConfigError, match="targets of different shapes"):
        data_of(X, X, X, X[:, :2])
    with pytest.raises(ConfigError, match="labels with NaN"):
        data_of(X, X * np.nan, X, X)
