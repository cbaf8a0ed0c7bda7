"""What is peculiar to FilterL2: twins, exactness beside sections, and blocks that arrive one by one."""

import numpy as np
import pytest

from f2ed import estimators as e
from f2ed.core.errors import ConfigError


def test_identical_malicious_rows_go_together():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 200))
    X[:4] = X[0] + 3
    answer = e.FilterL2(0.2)(X)
    assert (answer.weights[:4] == 0).all()
    assert (answer.weights[4:] > 0.04).all()


def test_without_an_attack_it_answers_the_plain_mean():
    X = np.random.default_rng(1).normal(size=(50, 20_000)).astype(np.float32)
    np.testing.assert_allclose(e.FilterL2(0.1)(X).weights, 0.02)


def test_its_error_does_not_grow_with_the_dimension_while_the_medians_does():
    def error(rule, d):
        X = np.random.default_rng(d).normal(size=(60, d)).astype(np.float32)
        honest = X[5:].mean(axis=0)
        X[:5] += np.float32(1.0)  # one standard deviation in every coordinate
        return np.linalg.norm(rule(X).mean - honest)

    assert error(e.FilterL2(1 / 12), 100_000) < 2
    assert error(e.FilterL2(1 / 12), 100_000) < 2 * error(e.FilterL2(1 / 12), 1_000)
    assert error(e.Median(), 100_000) > 5 * error(e.Median(), 1_000)


def test_sections_let_through_what_the_exact_filter_sees():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 4000))
    honest = X[6:].mean(axis=0)
    X[:6] = X[:6] + 0.7 * rng.choice([-1, 1], size=4000)  # small in each section, large over all of them
    exact, cut = e.FilterL2(0.1), e.Sections(e.FilterL2(0.1), size=50)
    assert np.linalg.norm(exact(X).mean - honest) * 3 < np.linalg.norm(cut(X).mean - honest)


@pytest.mark.parametrize("widths", [[700], [1, 299, 400], [100] * 7])
def test_blocks_that_arrive_one_after_another_give_the_same_weights(widths):
    X = np.random.default_rng(3).normal(size=(15, 700)) + 5
    X[:3] += 4
    stream, at = e.GramStream(15), 0
    for width in widths:
        stream.add(X[:, at : at + width])
        at += width
    rule = e.FilterL2(0.2)
    np.testing.assert_allclose(rule.weigh(stream.gram).weights, rule(X).weights, atol=1e-9)


def test_a_stream_refuses_blocks_it_cannot_add():
    with pytest.raises(ConfigError, match="matrix of 4 rows"):
        e.GramStream(4).add(np.zeros((3, 5)))
    with pytest.raises(ConfigError, match="NaN, Inf"):
        e.GramStream(4).add(np.full((4, 5), np.nan))


@pytest.mark.parametrize("common", [0.0, 30.0, 1e4])
def test_a_large_common_mean_does_not_blur_the_differences(common):
    rng = np.random.default_rng(4)
    X = (rng.normal(size=(20, 3000)) + common * rng.normal(size=3000)).astype(np.float32)
    X[:3] += 1
    weights = e.FilterL2(0.15)(X).weights
    np.testing.assert_allclose(weights, e.FilterL2(0.15)(X.astype(np.float64)).weights, atol=1e-4)
    assert weights[:3].max() < 0.2 * weights[3:].min()


def test_rows_at_many_scales_are_distinguished():
    X = np.random.default_rng(5).normal(size=(21, 500)).astype(np.float32) * np.float32(1e-3)
    for row, size in enumerate([1e36, 1e20, 1e9, 1e3]):
        X[row] = size
    answer = e.FilterL2(0.25)(X)
    assert answer.weights[:4].max() == 0
    assert np.linalg.norm(answer.mean - X[4:].mean(axis=0)) < 0.5 * np.linalg.norm(X[4:].mean(axis=0))


def _cluster(rng, m, d):
    return 1e5 * np.ones((m, 1)) * rng.normal(size=d)


def _two_sides(rng, m, d):
    return 1e5 * rng.choice([-1, 1], size=(m, 1)) * rng.normal(size=d)


def _ladder(rng, m, d):
    return 10 ** np.linspace(0.5, 6, m)[:, None] * rng.normal(size=d)


def _all_around(rng, m, d):
    return 10 ** rng.uniform(0.5, 6, size=(m, 1)) * rng.normal(size=(m, d))


@pytest.mark.parametrize("adversary", [_cluster, _two_sides, _ladder, _all_around])
@pytest.mark.parametrize("malicious", [5, 10, 12])
def test_nearly_half_of_the_rows_may_be_malicious_and_anywhere(adversary, malicious):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(25, 40))
        honest = X[malicious:].mean(axis=0)
        X[:malicious] += adversary(rng, malicious, 40)
        assert np.linalg.norm(e.FilterL2(malicious / 25)(X).mean - honest) < np.sqrt(40)


def test_a_decoy_hides_other_outliers_from_dnc_and_not_from_the_filter():
    X = np.random.default_rng(6).normal(size=(25, 40))
    honest = X[5:].mean(axis=0)
    X[:5] += _ladder(np.random.default_rng(7), 5, 40)
    assert np.linalg.norm(e.DnC(0.2)(X).mean - honest) > 10
    assert np.linalg.norm(e.FilterL2(0.2)(X).mean - honest) < 2
