"""Rows that count with different weights, such as the number of samples behind them."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from f2ed import estimators as e
from f2ed.core.errors import ConfigError
from f2ed.estimators.fence import heaviest
from tests.estimators.examples import ALL, EXTRA, name, trusted

TENSORS = [4, 5]
WEIGHTED = [rule for rule in ALL + EXTRA if rule.takes_weights()]
OTHERS = [rule for rule in ALL + EXTRA if not rule.takes_weights()]


def rows(n=15, d=9, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    X[::7] += 6
    return X


def uneven(n=15, seed=1):
    return np.random.default_rng(seed).integers(1, 5, n)


def estimate(rule, X, **more):
    return rule(X, tensors=TENSORS, rng=np.random.default_rng(4), root=trusted(X), **more)


@pytest.mark.parametrize("rule", ALL + EXTRA, ids=name)
def test_equal_weights_are_no_weights_to_the_bit(rule):
    X = rows().astype(np.float32)
    one, other = estimate(rule, X), estimate(rule, X, weights=np.full(len(X), 7.5))
    assert one.mean.tobytes() == other.mean.tobytes()
    assert (one.weights is None) or (one.weights.tobytes() == other.weights.tobytes())


@pytest.mark.parametrize("rule", WEIGHTED, ids=name)
def test_only_the_ratios_of_weights_matter_and_weights_do(rule):
    X, weights = rows(), uneven()
    found = estimate(rule, X, weights=weights)
    np.testing.assert_allclose(estimate(rule, X, weights=weights / 3).mean, found.mean, rtol=1e-9, atol=1e-12)
    if not isinstance(rule, e.Krum):  # which returns one row
        assert not np.allclose(estimate(rule, X).mean, found.mean)
    if found.weights is not None:
        assert found.weights.sum() == 1
        np.testing.assert_allclose(found.weights @ X, found.mean, atol=1e-6) if _is_mean_of_rows(rule) else None


def _is_mean_of_rows(rule):
    bounded = e.Fence | e.SignVote | e.AlignIns
    return not isinstance(rule, e.CenteredClipping | e.Clipping | e.MedianClipping | e.ARC | e.Sections | bounded)


@pytest.mark.parametrize("rule", WEIGHTED, ids=name)
def test_the_order_of_weighted_rows_does_not_matter(rule):
    if isinstance(rule, e.Bucketing | e.MoNNA):
        pytest.skip("the order matters without weights, too")
    X, weights, order = rows(), uneven(), np.random.default_rng(2).permutation(15)
    one, other = estimate(rule, X, weights=weights), estimate(rule, X[order], weights=weights[order])
    np.testing.assert_allclose(other.mean, one.mean, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("rule", WEIGHTED, ids=name)
def test_torch_gives_the_same(rule):
    X, weights = rows(), uneven()
    found = estimate(rule, torch.from_numpy(X), weights=weights).mean
    assert found.numpy().tobytes() == estimate(rule, X, weights=weights).mean.tobytes()


@pytest.mark.parametrize("rule", WEIGHTED, ids=name)
def test_a_row_that_is_not_finite_is_left_out_with_its_weight(rule):
    X, weights = rows(16), uneven(16)
    X[5, 3] = np.nan
    kept = np.arange(16) != 5
    found = estimate(rule, X, weights=weights)
    assert found.excluded == (5,)
    if not isinstance(rule, e.Bucketing):
        alone = estimate(rule, X[kept], weights=weights[kept]).mean
        np.testing.assert_allclose(found.mean, alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", OTHERS, ids=name)
def test_rules_without_a_weighted_version_refuse_weights_by_name(rule):
    with pytest.raises(ConfigError, match=f"{rule.title} is not defined for rows of different weights"):
        estimate(rule, rows(), weights=uneven())


def test_a_wrapper_around_such_a_rule_refuses_them_too():
    rule = e.NNM(f=1, inner=e.Bulyan(f=1))
    assert not rule.takes_weights()
    with pytest.raises(ConfigError, match="not defined for rows of different weights"):
        estimate(rule, rows(), weights=uneven())


AS_REPEATED = {
    "mean": lambda _f: e.Mean(),
    "median": lambda _f: e.Median(),
    "trimmed-mean": lambda f: e.TrimmedMean(f=f),
    "filter-l2": lambda f: e.FilterL2(f=f),
    "geometric-median": lambda _f: e.GeometricMedian(),
    "centered-clipping": lambda _f: e.CenteredClipping(iterations=2),
    "nnm": lambda f: e.NNM(f=f, inner=e.Mean()),
    "nnm-filter-l2": lambda f: e.NNM(f=f, inner=e.FilterL2(f=f)),
    "sections": lambda f: e.Sections(e.FilterL2(f=f), size=4),
    "clipping": lambda _f: e.Clipping(2.0, e.Median()),
    "mean-around-median": lambda f: e.MeaMed(f=f),
    "fence": lambda f: e.Fence(f=f, inner=e.Mean()),
    "fence-trim": lambda f: e.Fence(f=f, inner=e.Mean(), cut="trim"),
    "fence-alone": lambda f: e.Fence(f=f, select=False),
    "fence-nearest": lambda f: e.Fence(f=f, inner=e.Mean(), cut="nearest", most=0.49),
    "hard-weights": lambda _f: e.HardWeights(e.GeometricMedian()),
    "sign-vote": lambda _f: e.SignVote(e.Mean(), agreement=0.5),
    "align-ins": lambda _f: e.AlignIns(),
    "reputation": lambda _f: e.Reputation(e.GeometricMedian()),
}


@pytest.mark.parametrize("rule", AS_REPEATED)
@given(st.lists(st.integers(1, 4), min_size=7, max_size=11), st.integers(0, 2), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_integer_weights_are_repeated_rows(rule, weights, f, seed):
    heaviest = sum(sorted(weights)[len(weights) - f :])
    if 2 * heaviest >= sum(weights):
        return
    X = rows(len(weights), seed=seed)
    one = estimate(AS_REPEATED[rule](f), X, weights=weights).mean
    other = estimate(AS_REPEATED[rule](heaviest), np.repeat(X, weights, axis=0)).mean
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_filter_l2_below_a_variance_equals_repeated_rows():
    X, weights = rows(), uneven()
    rule = e.FilterL2(f=4, sigma=0.35)
    found = estimate(rule, X, weights=weights)
    repeated = estimate(e.FilterL2(f=15, sigma=0.35), np.repeat(X, weights, axis=0))
    assert found.stopped == "the largest variance is small enough"
    assert 0 < found.iterations < 8
    np.testing.assert_allclose(found.mean, repeated.mean, rtol=1e-6)


def test_a_heavy_attacker_is_within_the_assumption():
    X, weights = rows(20), np.ones(20)
    X[::7] -= 6
    X[3] += 50
    weights[3] = 5
    assert estimate(e.FilterL2(f=1), X, weights=weights).weights[3] == 0
    assert abs(estimate(e.TrimmedMean(f=1), X, weights=weights).mean - np.delete(X, 3, 0).mean(0)).max() < 1


def test_assumed_rows_with_half_of_the_weight_are_refused():
    with pytest.raises(ConfigError, match="the 2 heaviest have 60% of the weight; less than half is needed"):
        estimate(e.FilterL2(f=2), rows(10), weights=[6, 6, *[1] * 8])


@pytest.mark.parametrize("weights", [[1] * 14, [1] * 14 + [0], [1] * 14 + [-1], [1] * 14 + [np.nan], [[1]] * 15])
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(ConfigError, match="weights of 15 rows must be 15 positive numbers"):
        estimate(e.Mean(), rows(), weights=weights)


def test_the_weighted_median_by_hand():
    X = np.array([[1.0], [2.0], [10.0]])
    assert e.Median()(X, weights=[1, 1, 3]).mean.tolist() == [10.0]
    assert e.Median()(X, weights=[3, 2, 1]).mean.tolist() == [1.5]  # half of the weight ends with the first row
    assert e.TrimmedMean(f=1)(X, weights=[2, 3, 2]).mean.tolist() == [2.0]


def test_krum_by_hand():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [40.0]])
    # Of a weight of 10, the heaviest row (4) and one on average (2) are left out: the nearest 4, own weight included.
    weights = [1, 1, 2, 2, 4]
    scores = e.krum.row_scores(e.Krum(f=1), (X - X.T) ** 2, np.array(weights, float))
    # Row 0: itself, 1 at 1, 2 at 4. Row 2: itself (2), 1 at 1 and 1 of row 3 at 1. Row 4: at least 2 beyond its own.
    np.testing.assert_allclose(scores, [9, 3, 2, 2, 2 * 37**2])
    assert e.Krum(f=1)(X, weights=weights).mean.tolist() == [2.0]


def test_smea_compares_weighted_covariances():
    X, weights = rows(9, 3), uneven(9).astype(float)

    def variance(kept):
        centered = X[list(kept)] - np.average(X[list(kept)], axis=0, weights=weights[list(kept)])
        shares = weights[list(kept)] / weights[list(kept)].sum()
        return np.linalg.eigvalsh((centered * shares[:, None]).T @ centered)[-1]

    best = list(min(combinations(range(9), 7), key=variance))
    found = e.SMEA(f=2)(X, weights=weights)
    np.testing.assert_allclose(found.weights[best], weights[best] / weights[best].sum())
    assert found.eigenvalue == pytest.approx(variance(best))
    np.testing.assert_allclose(e.MDA(f=2)(X, weights=weights).weights[best].sum(), 1)


def test_no_weight_of_the_no_regret_filter_exceeds_its_cap():
    weights = uneven().astype(float)
    found = e.NoRegret(f=2)(rows(), weights=weights).weights
    kept = found > 0
    share = 1 - np.sort(weights)[-2:].sum() / weights.sum()
    assert (found[kept] <= weights[kept] / weights[kept].sum() / share * (1 + 1e-9)).all()
    assert kept.sum() == 13


def test_the_fence_keeps_the_rows_that_got_most_for_what_they_count():
    weights = np.array([0.2, 0.3, 0.1, 0.4])
    # For each unit of weight: 0.1, 0.1, 0.05 and 0.4.
    prior = np.array([2.0, 3.0, 2.0, 1.0])
    assert heaviest(weights, 1, prior).tolist() == [3]
    assert heaviest(weights, 3, prior).tolist() == [0, 1, 3]  # the first two got the same
    assert heaviest(weights, 7, prior).tolist() == [0, 1, 2, 3]
    assert heaviest(weights, 2).tolist() == [1, 3]


def test_the_weighted_fence_by_hand():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [100.0]])
    weights = [1, 2, 3, 2, 1]
    # The heaviest row has 3 of 9: values that have at most a weight of 3 up to them are moved to the next.
    assert e.Fence(f=1, select=False)(X, weights=weights).mean.tolist() == [pytest.approx(2.0)]
    alone = e.Fence(f=1, select=False, most=0.2)(X, weights=weights).mean  # 1.8 of 9: 0 becomes 1 and 100 becomes 3
    assert alone.tolist() == [pytest.approx((1 + 2 + 6 + 6 + 3) / 9)]


def test_few_rows_with_much_weight_are_many_to_the_fence():
    X, weights = rows(20), np.ones(20)
    rule = e.Fence(f=1, select="auto")
    assert rule(X, weights=weights + np.arange(20) / 100).stopped == "all 20 rows kept"
    weights[4] = 6  # a quarter of the weight
    assert rule(X, weights=weights).stopped == "a weight of 2f is removed"


def test_a_heavy_row_that_deviates_is_rejected_by_the_wrappers():
    X, weights = rows(20), np.ones(20)
    X[::7] -= 6
    X[3] += 50
    weights[3] = 4
    every = [e.Fence(f=1), e.Fence(f=1, inner=e.DualFilter(f=1)), e.HardWeights(e.FilterL2(f=1)), e.DualFilter(f=1)]
    every += [e.AlignIns(), e.Reputation(e.FilterL2(f=1)), e.MedianClipping(e.Fence(f=1))]
    for rule in every:
        assert rule(X, weights=weights).weights[3] == 0


def test_votes_count_by_weight():
    X = np.array([[1.0], [1.0], [-1.0]])
    rule = e.SignVote(e.Mean(), agreement=0.3)
    assert rule(X).mean.tolist() == [pytest.approx(1 / 3)]
    assert rule(X, weights=[1, 1, 2.1]).mean.tolist() == [0]
