"""What holds for every estimator, and for which it does not."""

import msgspec
import numpy as np
import pytest
import torch

import f2ed.core.arrays
import f2ed.estimators._linalg.rows
from f2ed import estimators as e
from f2ed.core.errors import ConfigError
from tests.estimators.examples import ALL, EXAMPLES, EXTRA, MEMBERS, name, trusted

EVERY = pytest.mark.parametrize("rule", ALL + EXTRA, ids=name)
TENSORS = [10, 20, 11]


def rows(n=19, d=41, seed=0, kind=np.float64):
    """Honest rows around a common mean, with three far ones among them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(size=d)
    X[::7] += 2.5
    return X.astype(kind)


def estimate(rule, X, **more):
    return rule(X, tensors=TENSORS, root=trusted(X), **more)


def without(*kinds):
    return pytest.mark.parametrize("rule", [r for r in ALL + EXTRA if not isinstance(r, kinds)], ids=name)


def test_every_estimator_has_an_example():
    assert set(MEMBERS) == set(EXAMPLES)


@EVERY
def test_settings_survive_json(rule):
    assert msgspec.json.decode(msgspec.json.encode(rule), type=e.AnyEstimator) == rule


def test_an_unknown_setting_is_refused_with_its_path():
    with pytest.raises(msgspec.ValidationError, match=r"unknown field `epsilom` - at `\$\.inner`"):
        msgspec.json.decode(
            b'{"kind":"nnm","contamination":0.1,"inner":{"kind":"krum","epsilom":0.1}}', type=e.AnyEstimator
        )


@without(e.Bucketing, e.MoNNA)
def test_the_order_of_the_rows_does_not_matter(rule):
    X = rows()
    order = np.random.default_rng(1).permutation(len(X))
    one, other = estimate(rule, X), estimate(rule, X[order])
    np.testing.assert_allclose(other.mean, one.mean, rtol=1e-8, atol=1e-10)
    if one.weights is not None:
        np.testing.assert_allclose(other.weights, one.weights[order], atol=1e-8)


RADIAL = (e.Clipping, e.ARC, e.CenteredClipping, e.MedianClipping, e.SignVote, e.AlignIns, e.RootVeto)


@without(*RADIAL)
def test_moving_all_rows_moves_the_answer(rule):
    X, shift = rows(), np.linspace(-9, 9, 41)
    np.testing.assert_allclose(estimate(rule, X + shift).mean, estimate(rule, X).mean + shift, rtol=1e-8, atol=1e-8)


def test_centered_clipping_moves_with_the_rows_and_its_start():
    X, shift = rows(), np.linspace(-9, 9, 41)
    one = e.CenteredClipping(2.0)(X, previous=X[0])
    np.testing.assert_allclose(e.CenteredClipping(2.0)(X + shift, previous=X[0] + shift).mean, one.mean + shift)


@pytest.mark.parametrize("rule", [r for r in ALL + EXTRA if getattr(r, "variant", "") != "released"], ids=name)
@pytest.mark.parametrize("factor", [1e-30, 1e-3, 7.0, 1e30])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_scaling_all_rows_scales_the_answer(rule, factor, kind):
    # (The released variant of FilterL2 does not: it compares a fourth power with a second one.)
    lengths = {key: getattr(rule, key) for key in ("radius", "sigma") if getattr(rule, key, None)}
    larger = msgspec.structs.replace(rule, **{key: factor * value for key, value in lengths.items()})
    X = rows(kind=kind)
    expected = estimate(rule, X).mean.astype(np.float64)
    answer = estimate(larger, (X * np.float64(factor)).astype(kind)).mean.astype(np.float64) / factor
    loose = 2e-4 if kind == np.float32 else 1e-7
    np.testing.assert_allclose(answer, expected, rtol=loose, atol=loose * np.abs(expected).max())


ROTATING = (e.GramRule, e.MoNNA, e.Mean, e.CenteredClipping)


@pytest.mark.parametrize("rule", [r for r in ALL + EXTRA if isinstance(r, ROTATING)], ids=name)
def test_rules_of_the_gram_family_turn_with_the_space(rule):
    X = rows()
    Q, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(41, 41)))
    np.testing.assert_allclose(estimate(rule, X @ Q).mean, estimate(rule, X).mean @ Q, rtol=1e-7, atol=1e-9)


@EVERY
def test_torch_and_numpy_agree_to_the_bit(rule):
    X = rows(kind=np.float32)
    tensor = torch.from_numpy(X.copy()).requires_grad_()
    one, other = estimate(rule, X), estimate(rule, tensor)
    assert isinstance(other.mean, torch.Tensor)
    assert other.mean.dtype == torch.float32
    assert not other.mean.requires_grad
    np.testing.assert_array_equal(other.mean.numpy(), one.mean)


@EVERY
def test_the_previous_answer_may_be_a_tensor_too(rule):
    X = rows(kind=np.float32)
    start = X.mean(axis=0)
    tensors = estimate(rule, torch.from_numpy(X), previous=torch.from_numpy(start))
    np.testing.assert_array_equal(tensors.mean.numpy(), estimate(rule, X, previous=start).mean)


@EVERY
def test_float32_and_float64_agree(rule):
    X = rows(kind=np.float32)
    one, other = estimate(rule, X), estimate(rule, X.astype(np.float64))
    assert one.mean.dtype == np.float32
    assert other.mean.dtype == np.float64
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-3, atol=1e-4)


@EVERY
def test_blocks_and_threads_change_nothing(rule, monkeypatch):
    X = rows(d=1041)
    whole = rule(X, tensors=[1000, 41], root=trusted(X))
    monkeypatch.setattr(f2ed.core.arrays, "_WORTH_THREADS", 1)
    monkeypatch.setattr(f2ed.estimators._linalg.rows, "_BLOCK", 1)
    monkeypatch.setattr(f2ed.estimators._linalg.rows, "_NARROWEST", 13)
    blocked = rule(X, tensors=[1000, 41], root=trusted(X))
    np.testing.assert_allclose(blocked.mean, whole.mean, rtol=1e-9, atol=1e-11)


NO_WEIGHTS = (e.Median, e.TrimmedMean, e.MeaMed, e.Bulyan)


@EVERY
def test_weights_are_a_distribution_over_the_rows_and_give_the_mean(rule):
    X = rows()
    answer = estimate(rule, X)
    if isinstance(getattr(rule, "inner", None) or rule, NO_WEIGHTS) or isinstance(rule, e.Bulyan):
        assert answer.weights is None
        return
    assert answer.weights.shape == (len(X),)
    assert (answer.weights >= 0).all()
    assert answer.weights.sum() == 1
    if not isinstance(rule, (*RADIAL, e.Fence, e.Sections)):
        np.testing.assert_allclose(answer.mean, answer.weights @ X, atol=1e-10)


@EVERY
def test_the_rows_given_in_are_left_as_they_are(rule):
    X = rows(kind=np.float32)
    before = X.copy()
    mean = estimate(rule, X).mean
    np.testing.assert_array_equal(X, before)
    assert not np.shares_memory(mean, X)


@EVERY
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_named_and_left_out(rule, bad):
    X = rows(n=24)
    X[5, 40], X[11, :] = bad, bad
    expected = estimate(rule, np.delete(X, [5, 11], axis=0)).mean
    answer = estimate(rule, X)
    assert answer.excluded == (5, 11)
    np.testing.assert_allclose(answer.mean, expected, rtol=1e-12)
    if answer.weights is not None:
        assert answer.weights[[5, 11]].tolist() == [0, 0]


@EVERY
def test_rows_whose_squares_overflow_are_named_and_left_out(rule):
    X = rows(n=24)
    X[3] = 1e200
    answer = estimate(rule, X)
    assert np.isfinite(answer.mean).all()
    if isinstance(rule, (e.GramRule, e.MoNNA, e.CenteredClipping, e.ARC, e.Clipping)):
        assert answer.excluded == (3,)


@EVERY
def test_no_finite_row_at_all_is_refused(rule):
    with pytest.raises(ConfigError, match="none of the 19 rows is finite"):
        estimate(rule, np.full((19, 41), np.nan))


@EVERY
@pytest.mark.parametrize("value", [0.0, 1.1, -3e-20])
def test_rows_that_all_agree_are_the_answer(rule, value):
    X = np.full((19, 41), value, np.float32)
    answer = estimate(rule, X, previous=X[0])
    expected = X[0] * min(1, 3.0 / np.linalg.norm(X[0]) if value else 1) if isinstance(rule, e.Clipping) else X[0]
    np.testing.assert_allclose(answer.mean, expected, rtol=3e-7)


@EVERY
def test_two_camps_of_equal_rows_give_a_finite_answer_between_them(rule):
    X = np.repeat([[0.0], [1.0]], [10, 9], axis=0) * np.ones(41)
    answer = estimate(rule, X)
    assert (answer.mean >= 0).all()
    assert (answer.mean <= 1).all()


SMALL = [rule for rule in ALL if not isinstance(rule, (e.Krum, e.MultiKrum, e.Bulyan, e.Clipping))]


@pytest.mark.parametrize("rule", SMALL, ids=name)
def test_one_row_is_its_own_mean(rule):
    X = rows(n=1)
    answer = estimate(rule, X, previous=X[0])
    np.testing.assert_allclose(answer.mean, X[0])


@pytest.mark.parametrize("rule", [e.FilterL2(0.49), e.FilterL2(0.49, sigma=1e-9), e.NoRegret(0.49)], ids=name)
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_the_filter_never_removes_all_rows(rule, n):
    answer = rule(rows(n=n))
    assert answer.weights.sum() == pytest.approx(1)
    assert np.isfinite(answer.mean).all()


@without(e.Mean)
def test_one_gigantic_row_beside_tiny_ones_does_no_harm(rule):
    for kind in (np.float32, np.float64):
        X = (rows(d=41, kind=np.float64) * 1e-3).astype(kind)
        honest = np.delete(X, 4, axis=0)
        X[4] = 1e20
        answer = estimate(rule, X, previous=honest.mean(axis=0)).mean
        assert np.linalg.norm(answer - honest.mean(axis=0)) < 20 * honest.std(axis=0).max() * np.sqrt(41)


@EVERY
def test_a_memory_mapped_file_is_read_in_place(rule, tmp_path):
    X = rows(kind=np.float32)
    X.tofile(tmp_path / "updates")
    mapped = np.memmap(tmp_path / "updates", np.float32, "r", shape=X.shape)
    np.testing.assert_array_equal(estimate(rule, mapped).mean, estimate(rule, X).mean)


@EVERY
def test_columns_may_lie_in_memory_in_any_order(rule):
    X = rows()
    np.testing.assert_allclose(estimate(rule, np.asfortranarray(X)).mean, estimate(rule, X).mean, rtol=1e-9)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros((0, 5)), "at least one row"),
        (np.zeros((5, 0)), "at least one row"),
        (np.zeros(5), "must be a matrix"),
        (np.float64(3), "a single number"),
        ([[1.0, 2.0], [3.0]], "the same length"),
        ([torch.zeros(2), torch.zeros(3)], "the same length"),
        (np.zeros((5, 5), int), "int64; convert"),
        (np.zeros((5, 5), np.float16), "float16; convert"),
        (torch.zeros(5, 5, dtype=torch.bfloat16), "bfloat16; convert"),
        ("updates", "convert|must be a matrix"),
    ],
)
def test_what_is_no_matrix_of_floats_is_refused(bad, message):
    with pytest.raises(ConfigError, match=message):
        e.FilterL2(0.1)(bad)


def test_a_list_of_rows_is_a_matrix():
    X = rows(kind=np.float32)
    np.testing.assert_array_equal(e.Krum(0.2)(list(X)).mean, e.Krum(0.2)(X).mean)
    np.testing.assert_array_equal(e.Krum(0.2)([torch.from_numpy(x) for x in X]).mean.numpy(), e.Krum(0.2)(X).mean)


BREAKING = (e.Mean, e.Bucketing, e.Clipping, e.RootVeto)  # the last: there is nothing to point away from


@pytest.mark.parametrize("rule", [r for r in ALL if not isinstance(r, BREAKING)], ids=name)
@pytest.mark.parametrize("distance", [1e1, 1e3, 1e6, 1e12])
def test_malicious_rows_at_any_distance_leave_the_error_bounded(rule, distance):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(25, 41))
    honest = X[:20].mean(axis=0)
    X[20:] = X[20:] + distance * rng.normal(size=41)
    answer = estimate(rule, X, previous=honest).mean
    assert np.linalg.norm(answer - honest) < 2 * np.sqrt(41)


def test_one_malicious_row_moves_the_mean_anywhere():
    X = rows()
    X[0] = 1e12
    assert np.linalg.norm(e.Mean()(X).mean) > 1e10


@EVERY
def test_a_rule_that_does_without_the_last_estimate_never_reads_it(rule):
    X = rows()
    far = np.full(X.shape[1], 1e3)
    same = estimate(rule, X).mean.tobytes() == estimate(rule, X, previous=far).mean.tobytes()
    assert same or rule.needs_previous()


def test_rules_around_one_that_reads_the_last_estimate_need_it_too():
    assert [rule.title for rule in ALL if rule.needs_previous()] == ["Centered clipping", "AlignIns"]
    assert e.NNM(contamination=0.1, inner=e.CenteredClipping()).needs_previous()
    assert not e.NNM(contamination=0.1, inner=e.FilterL2(contamination=0.1)).needs_previous()
