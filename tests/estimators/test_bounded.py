"""`contamination` or `f`: exactly one of the two, and what follows from it."""

import msgspec
import numpy as np
import pytest
from msgspec import UNSET

from f2ed import estimators as e
from f2ed.core.errors import ConfigError
from tests.estimators.examples import ALL, EXTRA, name

BOUNDED = [rule for rule in ALL + EXTRA if isinstance(rule, e.BoundedEstimator)]


def by_count(rule, n):
    """State f wherever the rule, or one inside it, states a contamination."""
    changes = {}
    if isinstance(rule, e.BoundedEstimator):
        changes = {"contamination": UNSET, "f": rule.assumed_f(n)}
    inner = getattr(rule, "inner", None)
    if inner is not None:
        changes["inner"] = by_count(inner, n)
    return msgspec.structs.replace(rule, **changes)


@pytest.mark.parametrize("rule", BOUNDED, ids=name)
def test_f_rows_are_the_same_as_their_share(rule):
    X = np.random.default_rng(4).normal(size=(20, 41))
    X[:4] += 2
    if isinstance(getattr(rule, "inner", None), e.TrimmedMean) and isinstance(rule, e.Bulyan):
        pytest.skip("the inner rule of Bulyan sees ever fewer rows, so a share is not a fixed count")
    share, count = rule(X, tensors=[30, 11]), by_count(rule, 20)(X, tensors=[30, 11])
    np.testing.assert_array_equal(share.mean, count.mean)
    np.testing.assert_array_equal(share.weights, count.weights)


@pytest.mark.parametrize("rule", BOUNDED, ids=name)
def test_an_f_too_large_for_the_rows_is_refused(rule):
    with pytest.raises(ConfigError, match=r"only if .*n = 19 and f = 10; the largest that works is f = \d"):
        msgspec.structs.replace(rule, contamination=UNSET, f=10)(np.zeros((19, 41)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"krum: give contamination .* or f"),
        ({"contamination": 0.1, "f": 2}, r"krum: contamination = 0\.1 and f = 2; give one of the two"),
        ({"f": 2.0}, r"f: expected `int`, got `float` \(found 2\.0\)"),
        ({"f": True}, r"f: expected `int`, got `bool` \(found True\)"),
        ({"f": -1}, r"f: expected `int` >= 0 \(found -1\)"),
        ({"contamination": 0.5}, r"below 0\.5 is wanted \(found 0\.5\); for a count write f"),
        ({"contamination": 3}, r"below 0\.5 is wanted \(found 3\); for 3 rows write f = 3"),
        ({"contamination": "0.1"}, r"contamination: expected `float`, got `str`"),
        ({"contamination": float("nan")}, r"contamination: expected `float` >= 0"),
    ],
)
def test_a_bound_that_cannot_be_meant_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        e.Krum(**settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"kind":"krum"}', "krum: give contamination"),
        ('{"kind":"krum","f":1,"contamination":0.1}', "give one of the two"),
        ('{"kind":"sections","inner":{"kind":"krum"}}', r"krum: give contamination.*\$\.inner"),
        ('{"kind":"krum","f":1.5}', r"\$\.f"),
        ('{"kind":"krum","contamination":0.5}', r"\$\.contamination"),
    ],
)
def test_the_error_for_a_file_has_the_path_of_the_bound(text, message):
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.json.decode(text, type=e.AnyEstimator)


def test_the_one_that_is_not_given_is_not_written():
    assert msgspec.to_builtins(e.Krum(0.2)) == {"kind": "krum", "contamination": 0.2}
    assert msgspec.to_builtins(e.Krum(f=3)) == {"kind": "krum", "f": 3}
    assert repr(e.Krum(f=3)) == "Krum(f=3)"
    assert msgspec.json.decode(b'{"kind":"krum","f":3}', type=e.AnyEstimator) == e.Krum(f=3)


@pytest.mark.parametrize(
    ("rule", "assumed"),
    [
        (e.Mean(), None),
        (e.Krum(0.29), 29),
        (e.Krum(f=7), 7),
        (e.Sections(e.FilterL2(0.1)), 10),
        (e.Clipping(1.0, e.Median()), None),
        (e.Bucketing(3, e.Median()), None),
        (e.Bucketing(3, e.Krum(0.1)), 3),  # of 34 buckets
        (e.NNM(0.2, inner=e.Krum(0.1)), 20),
    ],
    ids=lambda value: name(value) if isinstance(value, e.Estimator) else str(value),
)
def test_an_estimator_tells_how_many_of_the_rows_it_assumes_malicious(rule, assumed):
    assert rule.assumed_f(100) == assumed
