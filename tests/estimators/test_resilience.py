"""The resilience filter: rows that agree beyond the honest spread move the mean, however near it they are."""

import numpy as np
import pytest

from f2ed import estimators as e
from f2ed.core.errors import ConfigError, SettingError

N, F, D = 60, 6, 2000


def rows(*, agree, noise, classes=0.0, seed=0):
    """Honest rows of spread 1 in all, and the last F a common step `agree` away with own noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) / np.sqrt(D)
    X[:-F] += classes * np.eye(D)[np.arange(N - F) % 9]
    X[-F:] = noise * X[-F:]
    X[-F:, 100] += agree
    return X


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_rows_that_agree_within_the_honest_spread_are_rejected(noise):
    X = rows(agree=0.4, noise=noise)
    assert (e.FilterL2(f=F)(X).weights[-F:] > 0.01).all()
    assert not e.Resilience(f=F)(X).weights[-F:].any()


def test_the_flattened_pass_finds_agreement_behind_the_classes():
    X = rows(agree=0.5, noise=0.5, classes=1.0)
    assert e.Resilience(f=F, flatten=())(X).weights[-F:].any()
    assert not e.Resilience(f=F)(X).weights[-F:].any()


@pytest.mark.parametrize("flatten", [(), (0.9,), (0.9, 0.5)])
def test_far_rows_are_rejected_in_the_first_pass(flatten):
    assert not e.Resilience(f=F, flatten=flatten)(rows(agree=20.0, noise=1.0)).weights[-F:].any()


@pytest.mark.parametrize("flatten", [(), (0.9,), (0.9, 0.5)])
def test_every_pass_rejects_f_rows_and_the_others_count_the_same(flatten):
    found, out = e.Resilience(f=F, flatten=flatten)(rows(agree=0.0, noise=1.0)), F * (1 + len(flatten))
    np.testing.assert_allclose(found.weights[found.weights > 0], 1 / (N - out))
    assert (found.weights == 0).sum() == out
    assert found.stopped == f"{out} rows rejected"


def test_without_malicious_rows_it_is_the_mean():
    X = rows(agree=1.0, noise=1.0)
    np.testing.assert_allclose(e.Resilience(f=0)(X).mean, X.mean(0), atol=1e-12)


def test_it_needs_a_majority_after_all_passes():
    assert e.Resilience(f=2, flatten=(0.5,))(np.eye(9)).weights is not None
    with pytest.raises(ConfigError, match="a majority is left; here n = 8 and f = 2; the largest that works is f = 1"):
        e.Resilience(f=2, flatten=(0.5,))(np.eye(8))


def test_a_quantile_outside_the_spectrum_is_refused():
    with pytest.raises(SettingError, match="flatten"):
        e.Resilience(f=2, flatten=(1.5,))
