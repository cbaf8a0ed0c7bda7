"""Each rule against its dense textbook version, on small inputs, and one value worked by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from f2ed import estimators as e
from f2ed.core.errors import ConfigError
from tests.estimators import textbook

CASES = settings(max_examples=40, deadline=None)
few = given(n=st.integers(11, 16), d=st.integers(1, 9), seed=st.integers(0, 10_000), shift=st.floats(0, 20))
tiny = given(n=st.integers(4, 9), d=st.integers(1, 5), seed=st.integers(0, 10_000), shift=st.floats(0, 20))


def sample(n, d, seed, shift):
    """Rows in general position; a fifth of them moved away together."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.uniform(0.1, 3, size=d) + rng.normal(size=d)
    X[: n // 5] += shift * rng.normal(size=d)
    return X


def close(answer, expected):
    np.testing.assert_allclose(answer, expected, rtol=1e-7, atol=1e-9)


@CASES
@few
def test_the_coordinate_rules_match(n, d, seed, shift):
    X, f = sample(n, d, seed, shift), n // 5
    contamination = f / n
    close(e.Mean()(X).mean, X.mean(axis=0))
    close(e.Median()(X).mean, textbook.median(X))
    close(e.TrimmedMean(contamination)(X).mean, textbook.trimmed_mean(X, f))
    close(e.MeaMed(contamination)(X).mean, textbook.nearest_to_median(X, n - f))


@pytest.mark.parametrize("n", [63, 64, 65, 100])
def test_sorting_by_network_and_by_numpy_agree(n):
    X = sample(n, 7, n, 3.0)
    close(e.TrimmedMean(0.2)(X).mean, textbook.trimmed_mean(X, int(0.2 * n + 1e-9)))


@CASES
@few
def test_krum_and_its_kin_match(n, d, seed, shift):
    X, f = sample(n, d, seed, shift), 2
    contamination = f / n
    order = textbook.krum_order(X, f)
    close(e.Krum(contamination)(X).mean, X[order[0]])
    close(e.MultiKrum(contamination)(X).mean, X[order[: n - f]].mean(axis=0))
    close(e.MultiKrum(contamination, keep=3)(X).mean, X[order[:3]].mean(axis=0))
    nearest = np.sum((X - X[4]) ** 2, axis=1).argsort()[: n - f]
    close(e.MoNNA(contamination, trusted=4)(X).mean, X[nearest].mean(axis=0))


@CASES
@few
def test_bulyan_matches_for_each_inner_rule(n, d, seed, shift):
    X, f = sample(n, d, seed, shift), 2
    contamination = f / n

    def nearest(to):
        return lambda left: int(np.sum((left - to(left)) ** 2, axis=1).argmin())

    close(e.Bulyan(contamination)(X).mean, textbook.bulyan(X, f, lambda left: int(textbook.krum_order(left, f)[0])))
    close(e.Bulyan(contamination, e.Median())(X).mean, textbook.bulyan(X, f, nearest(textbook.median)))
    inner = nearest(lambda left: textbook.trimmed_mean(left, int(0.2 * len(left) + 1e-9)))
    close(e.Bulyan(contamination, e.TrimmedMean(0.2))(X).mean, textbook.bulyan(X, f, inner))


@CASES
@few
def test_the_filter_matches_the_dense_covariance(n, d, seed, shift):
    X, f = sample(n, d, seed, shift), n // 5
    contamination = f / n
    close(e.FilterL2(contamination)(X).mean, textbook.filter_without_scale(X, f))
    for sigma in (1e-6, 0.3, 1.0):
        close(e.FilterL2(contamination, sigma=sigma, eta=2.0)(X).mean, textbook.filter_l2(X, f, 2 * sigma**2))
        dense = textbook.filter_l2(X, f, 20 * sigma**2, squared=True)
        close(e.FilterL2(contamination, sigma=sigma, variant="released")(X).mean, dense)


@CASES
@few
def test_no_regret_matches(n, d, seed, shift):
    X, f = sample(n, d, seed, shift), n // 5
    np.testing.assert_allclose(e.NoRegret(f / n)(X).mean, textbook.no_regret(X, f, f / n), rtol=1e-6, atol=1e-8)


@settings(max_examples=15, deadline=None)
@given(n=st.integers(5, 12), d=st.integers(2, 9), seed=st.integers(0, 10_000))
def test_the_geometric_median_is_where_unit_vectors_cancel(n, d, seed):
    X = sample(n, d, seed, 3.0)
    z = e.GeometricMedian(iterations=100_000)(X).mean
    away = X - z
    distances = np.linalg.norm(away, axis=1)
    far = distances > 1e-3
    pull = np.linalg.norm((away[far] / distances[far, None]).sum(axis=0))
    assert pull <= (~far).sum() + 1e-3  # a row at the point itself can hold any pull up to one


@CASES
@few
def test_clipping_matches(n, d, seed, shift):
    X, f = sample(n, d, seed, shift), 2
    start = np.ones(d)
    close(e.CenteredClipping(1.5)(X, previous=start).mean, textbook.centered_clipping(X, start, 1.5))
    radius = float(np.median(np.linalg.norm(X - start, axis=1)))
    close(e.CenteredClipping()(X, previous=start).mean, textbook.centered_clipping(X, start, radius))
    twice = textbook.centered_clipping(X, textbook.centered_clipping(X, start, 1.5), 1.5)
    close(e.CenteredClipping(1.5, iterations=2)(X, previous=start).mean, twice)
    close(e.Clipping(1.5, e.Median())(X).mean, textbook.median(textbook.clip(X, 1.5)))
    close(e.ARC(f / n, inner=e.FilterL2(f / n))(X).mean, textbook.filter_without_scale(textbook.adaptive_clip(X, f), f))


@CASES
@few
def test_mixing_matches(n, d, seed, shift):
    X, f = sample(n, d, seed, shift), 2
    mixed = textbook.nearest_neighbor_mixing(X, f)
    close(e.NNM(f / n, inner=e.Median())(X).mean, textbook.median(mixed))
    close(e.NNM(f / n, inner=e.FilterL2(f / n))(X).mean, textbook.filter_without_scale(mixed, f))
    clipped = textbook.nearest_neighbor_mixing(textbook.clip(X, 1.5), f)
    close(e.Clipping(1.5, e.NNM(f / n, inner=e.Median()))(X).mean, textbook.median(clipped))
    close(e.NNM(f / n, inner=e.Clipping(1.5, e.Median()))(X).mean, textbook.median(textbook.clip(mixed, 1.5)))


@CASES
@few
def test_buckets_are_means_of_random_groups_of_rows(n, d, seed, shift):
    X = sample(n, d, seed, shift)
    order = np.random.default_rng(seed).permutation(n)
    buckets = np.array([X[order[i : i + 3]].mean(axis=0) for i in range(0, n, 3)])
    close(e.Bucketing(3, e.Median())(X, rng=np.random.default_rng(seed)).mean, textbook.median(buckets))


@CASES
@few
def test_divide_and_conquer_matches(n, d, seed, shift):
    X, f = sample(n, d, seed, shift), 2
    rng, good = np.random.default_rng(seed), set(range(n))
    count = max(d // 2, 1)
    for _ in range(2):
        part = X[:, np.sort(rng.choice(d, count, replace=False))]
        part = part - part.mean(axis=0)
        scores = (part @ np.linalg.svd(part)[2][0]) ** 2
        good -= set(np.argsort(-scores)[:f].tolist())
    answer = e.DnC(f / n, draws=2, coordinates=count)(X, rng=np.random.default_rng(seed))
    close(answer.mean, X[sorted(good)].mean(axis=0))


@CASES
@tiny
def test_the_narrowest_sets_are_found_among_all_subsets(n, d, seed, shift):
    X, f = sample(n, d, seed, shift), (n - 1) // 3
    close(e.SMEA(f / n)(X).mean, textbook.smea(X, f))
    kept = np.flatnonzero(e.MDA(f / n)(X).weights)
    assert len(kept) == n - f
    assert textbook.diameter(X[kept]) == pytest.approx(textbook.smallest_diameter(X, f), rel=1e-9)


def test_sections_estimate_each_stretch_alone():
    X = sample(12, 10, 0, 5.0)
    inner = e.FilterL2(0.2)
    by_size = [inner(np.ascontiguousarray(X[:, a:b])).mean for a, b in [(0, 4), (4, 8), (8, 10)]]
    close(e.Sections(inner, size=4)(X).mean, np.concatenate(by_size))
    borders = [(0, 4), (4, 6), (6, 10)]
    by_tensor = [inner(np.ascontiguousarray(X[:, a:b])).mean for a, b in borders]
    close(e.Sections(inner, size=4, per_tensor=True)(X, tensors=[6, 4]).mean, np.concatenate(by_tensor))


# By hand -----------------------------------------------------------------------------------------

LINE = np.array([[0.0], [1.0], [2.0], [3.0], [100.0]])


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (e.Mean(), 21.2),
        (e.Median(), 2.0),
        (e.TrimmedMean(0.2), 2.0),
        (e.MeaMed(0.2), 1.5),  # 0, 1, 2, 3 are the four nearest to 2
        (e.Krum(0.2), 1.0),  # two nearest others: scores 5, 2, 2, 5, …; the first of the tie
        (e.MultiKrum(0.2), 1.5),
        (e.GeometricMedian(), 2.0),
        (e.MDA(0.2), 1.5),
        (e.SMEA(0.2), 1.5),
        (e.MoNNA(0.2), 1.5),
        (e.CenteredClipping(2.0), 1.4),  # from zero: (0 + 1 + 2 + 2 + 2) / 5
        (e.Clipping(2.0, e.Mean()), 1.4),
        (e.ARC(0.2, inner=e.Mean()), 1.8),  # one row is clipped, to 3: (0 + 1 + 2 + 3 + 3) / 5
        (e.Sections(e.Median(), size=1), 2.0),
        (e.DnC(0.2), 1.5),
        (e.Bucketing(5, e.Median()), 21.2),
        # each row becomes the mean of its four nearest: 1.5 for all but the last, whose are 1, 2, 3, 100
        (e.NNM(0.2, inner=e.Median()), 1.5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_five_numbers_on_a_line(rule, expected):
    assert rule(LINE).mean[0] == pytest.approx(expected, abs=1e-5)


def test_bulyan_by_hand():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [1e6]])
    # f = 1: Krum chooses five of 0..5, the three nearest their median are averaged
    assert e.Bulyan(1 / 7)(X).mean[0] == pytest.approx(2.0)


def test_the_filter_by_hand():
    # μ = 21.2 and τ = (449.44, 408.04, 368.64, 331.24, 6209.44); with f = 1 one step may be taken:
    # c = 1 - τ/τmax, mass 3.749 > 3; then the variance is smaller, and 2 of 5 units are gone after the next.
    answer = e.FilterL2(0.2)(LINE)
    c = 1 - np.array([449.44, 408.04, 368.64, 331.24, 6209.44]) / 6209.44
    np.testing.assert_allclose(answer.weights, c / c.sum(), rtol=1e-12)
    assert answer.mean[0] == pytest.approx((c / c.sum()) @ LINE[:, 0])
    assert answer.stopped == "a weight of 2f is removed"


def test_no_regret_by_hand():
    # Krum's scores (two nearest others) drop the 100; the rest have μ = 1.5, τ = (2.25, .25, .25, 2.25), step 1/18.
    answer = e.NoRegret(0.2)(LINE)
    assert answer.weights[4] == 0
    assert answer.mean[0] == pytest.approx(1.5)
    assert answer.weights[1] > answer.weights[0]


def test_the_filter_says_why_it_stopped():
    X = sample(12, 5, 0, 9.0)
    assert e.FilterL2(0.01)(X).stopped == "nothing to remove"
    assert e.FilterL2(0.2, sigma=1e3)(X).stopped == "the largest variance is small enough"
    assert e.FilterL2(0.2, sigma=1e-9)(X).stopped == "2f rows are removed"
    assert e.FilterL2(0.2)(np.ones((5, 3))).stopped == "the remaining rows agree"
    assert e.FilterL2(0.4, sigma=1e-9)(np.array([[0.0], [1.0]] * 3)).stopped == "the remaining rows deviate equally"


def test_the_released_rule_with_its_sigma_always_drops_the_same_number_of_rows():
    weights = e.FilterL2(0.4, sigma=1e-6, variant="released")(sample(25, 30, 0, 0.0)).weights
    assert (weights == 0).sum() == 20


# Refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "n", "message"),
    [
        (
            e.Krum(0.4),
            10,
            r"Krum tolerates f malicious rows of n only if n >= 2f \+ 3.*rows is f = 4.*f = 3, contamination = 0.3",
        ),
        (e.Krum(0.45), 20, r"rows is f = 9; the largest that works is f = 8, contamination = 0.4"),
        (e.Krum(0.0), 2, r"none: use more rows"),
        (e.MultiKrum(0.45), 20, r"Multi-Krum .*the largest that works is f = 8"),
        (e.MultiKrum(0.1, keep=21), 20, r"cannot keep 21 of 20 rows; keep at most 18"),
        (
            e.Bulyan(0.25),
            20,
            r"Bulyan .* n >= 4f \+ 3; .* contamination = 0.25 of 20 rows is f = 5; .*f = 4, contamination = 0.2",
        ),
        (e.MoNNA(0.1, trusted=20), 20, r"trusted = 20, but the rows are 0 to 19"),
        (e.SMEA(0.4), 40, r"the largest f that works is 6, contamination = 0.15"),
        (e.Sections(e.Median(), per_tensor=True), 5, r"needs the sizes"),
    ],
)
def test_a_rule_refuses_what_it_cannot_tolerate_and_says_what_it_can(rule, n, message):
    with pytest.raises(ConfigError, match=message):
        rule(np.random.default_rng(0).normal(size=(n, 3)))


def test_sections_refuse_tensors_that_do_not_add_up():
    with pytest.raises(ConfigError, match="that add up to 3"):
        e.Sections(e.Median(), per_tensor=True)(np.zeros((5, 3)), tensors=[1, 1])


def test_a_fraction_just_below_a_whole_number_of_rows_counts_as_it():
    X = np.arange(100.0)[:, None] ** 2
    assert e.TrimmedMean(0.29)(X).mean[0] == pytest.approx((np.arange(29, 71) ** 2).mean())


@CASES
@given(
    n=st.integers(11, 16),
    d=st.integers(1, 9),
    seed=st.integers(0, 10_000),
    shift=st.floats(0, 20),
    cut=st.sampled_from(["winsorize", "trim", "nearest"]),
    most=st.sampled_from([0.1, 1 / 3, 0.45]),
)
def test_the_fence_matches(n, d, seed, shift, cut, most):
    X, f = sample(n, d, seed, shift), 2
    first = e.FilterL2(f=f)(X)
    answer = e.Fence(f=f, cut=cut, most=most)(X)
    close(answer.mean, textbook.fenced(X, first.weights, f, most, cut))


def test_the_fence_needs_a_rule_that_weighs_rows():
    with pytest.raises(ConfigError, match="Median weighs no rows"):
        e.Fence(f=1, inner=e.Median())(sample(11, 3, 0, 1.0))


def test_rows_that_agree_pass_the_filter_and_not_the_fence():
    """Three of fifteen say the same in one coordinate, within the honest spread elsewhere: the filter keeps them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 200))
    X[:3] = 0.1 * X[:3]
    X[:3, 0] = 3.0
    fenced, filtered = e.Fence(f=3)(X), e.FilterL2(f=3)(X)
    honest = X[3:, 0].mean()
    assert filtered.weights[:3].min() > 0
    assert abs(fenced.mean[0] - honest) < abs(filtered.mean[0] - honest)
