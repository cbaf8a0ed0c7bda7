"""Scores are plain averages, however the samples are sliced."""

import pytest
import torch
from torch import nn

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets import Samples, Synthetic
from f2ed.learning.evaluate import Evaluator
from f2ed.learning.models import Cnn, ResNet18
from f2ed.learning.vector import flatten


@pytest.mark.parametrize("model", [Cnn(filters=3, hidden=5), ResNet18(width=2, norm="batch")], ids=str)
def test_accuracy_and_loss_are_those_of_one_big_batch(model):
    samples = Synthetic(test=600, classes=3, side=6)().test
    network = model((1, 6, 6), 3, 0).eval()
    score = Evaluator(network).score(flatten(network), samples)
    with torch.no_grad():
        scores = network(samples.images)
    assert score.accuracy == pytest.approx(float((scores.argmax(1) == samples.labels).float().mean()))
    assert score.loss == pytest.approx(float(nn.functional.cross_entropy(scores, samples.labels)), rel=1e-4)


def brightest():
    """A model that answers the number of the brightest of three pixels."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(3, 3))
    return network, torch.cat((torch.eye(3).flatten(), torch.zeros(3)))


def test_nothing_to_evaluate_on_is_refused():
    network, weights = brightest()
    with pytest.raises(ConfigError, match="no samples"):
        Evaluator(network).score(weights, Samples(torch.zeros(0, 1, 1, 3), torch.zeros(0, dtype=torch.int64)))
