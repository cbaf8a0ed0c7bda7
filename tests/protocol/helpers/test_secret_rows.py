import numpy as np
import pytest

from f2ed.core.errors import ConfigError
from f2ed.estimators import (
    ARC,
    MDA,
    NNM,
    SMEA,
    Bulyan,
    CenteredClipping,
    Clipping,
    DnC,
    FilterL2,
    GeometricMedian,
    Krum,
    Matrix,
    Mean,
    Median,
    MultiKrum,
    NoRegret,
    TrimmedMean,
)
from f2ed.protocol.helpers import SecretRows, check_rule
from f2ed.protocol.helpers.secret_rows import zero_or_one

RULES = [
    FilterL2(f=2),
    NoRegret(f=2),
    GeometricMedian(),
    MDA(f=2),
    SMEA(f=2),
    MultiKrum(f=2),
    NNM(f=2, inner=FilterL2(f=2)),
    Mean(),
]


def rows():
    rng = np.random.default_rng(0)
    found = rng.normal(size=(12, 40))
    found[:2] += 30
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_a_gram_rule_opens_one_sum_with_weights_of_zero_and_one(rule):
    matrix = rows()
    opened = []

    def opener(kept):
        opened.append(kept)
        return matrix[kept].mean(axis=0)

    check_rule(rule)
    secret = SecretRows(matrix @ matrix.T, opener, coordinates=40)
    found = rule.estimate(secret)
    plain = rule.estimate(Matrix(matrix))
    assert np.allclose(found.weights, plain.weights)
    assert np.array_equal(opened[0], zero_or_one(secret.weights))
    assert np.array_equal(found.mean, matrix[opened[0]].mean(axis=0))
    if not isinstance(rule, Mean):
        assert not opened[0][:2].any()
        assert opened[0].sum() >= 8


@pytest.mark.parametrize(
    "rule",
    [
        Median(),
        TrimmedMean(f=1),
        Bulyan(f=1),
        CenteredClipping(radius=1.0),
        Clipping(inner=Mean(), radius=1.0),
        DnC(f=1),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_rules_that_need_coordinates_are_refused_by_name(rule):
    with pytest.raises(ConfigError, match=rf"{rule.title} needs the coordinates"):
        check_rule(rule)


def test_krum_is_refused_alone_and_inside_another():
    with pytest.raises(ConfigError, match="Krum gives all its weight to one client"):
        check_rule(Krum(f=1))
    with pytest.raises(ConfigError, match="Krum gives all its weight to one client"):
        check_rule(NNM(f=1, inner=Krum(f=1)))
    with pytest.raises(ConfigError, match="needs the coordinates"):
        check_rule(NNM(f=1, inner=ARC(f=1, inner=Mean())))


def test_no_coordinate_and_no_second_sum_is_opened():
    secret = SecretRows(np.eye(3), lambda _: np.zeros(0), coordinates=5)
    with pytest.raises(ConfigError, match="only the Gram matrix"):
        secret.block(slice(0, 1))
    with pytest.raises(ConfigError, match="only the Gram matrix"):
        secret.section(slice(0, 1))
    with pytest.raises(ConfigError, match="only the Gram matrix"):
        Median().estimate(secret)
    secret.combine(np.ones(3))
    with pytest.raises(ConfigError, match="two sums"):
        secret.combine(np.array([1.0, 1, 0]))


def test_weights_below_half_the_median_are_zero():
    assert zero_or_one(np.array([0.5, 0.2, 0.4, 0.0, 0.19, 0.4])).tolist() == [True, True, True, False, False, True]
    assert not zero_or_one(np.zeros(3)).any()
