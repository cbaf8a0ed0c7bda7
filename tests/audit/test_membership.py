import numpy as np
import pytest
import torch

from f2ed.audit import auc, draw_shard, loss_scores, span_scores, true_positive_rate, view_of
from f2ed.audit.findings import interval_of, interval_of_mean
from f2ed.audit.server_view import update
from f2ed.core.randomness import stream
from f2ed.learning.models import Mlp


def test_the_span_of_a_shard_mean_tells_members_from_others(digits):
    rng = stream(0, "span")
    shard = draw_shard(digits, 4, 2, rng)
    view = view_of(Mlp((128,))(digits.shape, 10, 0), shard, digits, rng)
    inside = span_scores(view, torch.cat([samples.images for samples in shard]))
    outside = span_scores(view, digits.test.images)
    assert auc(inside, outside) > 0.99
    assert true_positive_rate(inside, outside) > 0.9


def test_a_model_fits_what_it_was_trained_on_better(digits):
    rng = stream(0, "loss")
    (mine,) = draw_shard(digits, 1, 30, rng)
    module = Mlp((64,))(digits.shape, 10, 0)
    moved = update(module, mine, lr=0.5, steps=100)
    torch.nn.utils.vector_to_parameters(
        torch.nn.utils.parameters_to_vector(module.parameters()) + torch.from_numpy(moved), module.parameters()
    )
    assert auc(loss_scores(module, mine), loss_scores(module, digits.test)) > 0.7


def test_the_area_counts_pairs_and_ties_by_half():
    assert auc(np.array([1.0, 3.0]), np.array([0.0, 2.0, 3.0])) == pytest.approx((1 + 2.5) / 6)
    assert auc(np.zeros(5), np.zeros(7)) == 0.5


def test_a_hundredth_of_false_alarms_is_a_hundredth():
    others = np.arange(1000.0)
    assert true_positive_rate(np.array([500.0, 995.0]), others) == 0.5
    assert (others > np.quantile(others, 0.99, method="higher")).mean() <= 0.01


def test_an_interval_covers_the_true_mean_about_as_often_as_it_says():
    covered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        found = interval_of_mean(rng.normal(3, 1, 40), rng)
        covered += found.low <= 3 <= found.high
    assert 50 <= covered <= 60


def test_an_interval_of_two_samples_draws_both_anew():
    rng = np.random.default_rng(0)
    found = interval_of((rng.normal(1, 1, 50), rng.normal(0, 1, 80)), auc, rng)
    assert found.low < found.value < found.high
    assert found.count == 130
