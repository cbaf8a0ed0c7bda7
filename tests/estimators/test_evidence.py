"""Rules that use more evidence than one round's rows: signs, norms, a trusted update, and a memory."""

import numpy as np
import pytest

from f2ed import estimators as e
from f2ed.core.errors import ConfigError


def test_hard_weights_leave_nothing_to_a_row_that_is_half_trusted():
    X = np.random.default_rng(0).normal(size=(15, 40))
    X[:3] += 2
    soft, hard = e.FilterL2(f=3)(X), e.HardWeights(e.FilterL2(f=3))(X)
    kept = soft.weights >= np.median(soft.weights) / 2
    assert not kept[:3].any()
    np.testing.assert_allclose(hard.weights, kept / kept.sum(), atol=1e-15)
    np.testing.assert_allclose(hard.mean, X[kept].mean(0), atol=1e-12)


@pytest.mark.parametrize("wrapper", [e.HardWeights, e.Reputation])
def test_a_rule_that_weighs_no_rows_is_refused(wrapper):
    with pytest.raises(ConfigError, match=r"Median weighs no rows; use a rule that does, as FilterL2"):
        wrapper(e.Median())(np.eye(5))


def test_a_coordinate_without_a_majority_of_signs_is_left_or_reversed():
    X = np.array([[1.0, 1.0, 0.0], [1.0, -2.0, 4.0], [1.0, 1.5, 0.0], [-1.0, -0.1, 0.0], [1.0, 0.5, 0.0]])
    # The sums of the signs are 3, 1 and 1 of 5.
    assert e.SignVote(e.Mean(), agreement=0.5)(X).mean.tolist() == pytest.approx([0.6, 0, 0])
    np.testing.assert_allclose(e.SignVote(e.Mean(), agreement=0.5, below="reverse")(X).mean, [0.6, -0.18, -0.8])
    np.testing.assert_allclose(e.SignVote(e.Mean(), agreement=0.2)(X).mean, [0.6, 0.18, 0.8])


def test_rejected_rows_have_no_vote():
    X = np.vstack([np.full((8, 4), 1.0) + 0.01 * np.eye(8, 4), np.full((7, 4), -50.0)])
    assert (e.SignVote(e.FilterL2(f=7), agreement=0.9)(X).mean > 0.9).all()


def test_signs_that_deviate_are_found_where_norms_do_not():
    rng = np.random.default_rng(1)
    X = 1 + 0.5 * rng.normal(size=(20, 200))
    X[:4, :100] *= -1
    answer = e.AlignIns(cutoff=3)(X)
    assert answer.weights[:4].tolist() == [0, 0, 0, 0]
    assert (answer.weights[4:] > 0).sum() >= 14
    assert np.abs(answer.mean - 1).max() < 0.6


def test_the_direction_of_the_last_step_counts_too():
    rng = np.random.default_rng(2)
    X = 1 + 0.5 * rng.normal(size=(20, 200))
    X[:4] = np.abs(X[:4]) * np.where(np.arange(200) < 30, 6.0, 0.3)
    previous = np.ones(200)
    assert e.AlignIns(cutoff=3)(X, previous=previous).weights[:4].tolist() == [0, 0, 0, 0]


def test_no_row_counts_more_than_the_median_norm():
    X = np.array([[3.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    np.testing.assert_allclose(e.MedianClipping(e.Mean())(X).mean, [0, 1 / 3], atol=1e-15)


def test_the_noise_is_a_share_of_the_median_norm_and_comes_from_the_generator():
    X = np.full((5, 40_000), 2.0)
    rule = e.MedianClipping(e.Mean(), noise=0.001)
    noise = rule(X, rng=np.random.default_rng(1)).mean - 2
    assert noise.std() == pytest.approx(0.001 * 400, rel=0.03)
    np.testing.assert_array_equal(rule(X, rng=np.random.default_rng(1)).mean, noise + 2)
    assert not np.array_equal(rule(X, rng=np.random.default_rng(2)).mean, noise + 2)


def test_rows_that_point_away_from_the_root_update_are_rejected():
    X = np.array([[1.0, 0.0], [1.0, 1.0], [-0.1, 5.0], [0.0, 3.0]])
    answer = e.RootVeto(e.Mean())(X, root=np.array([1.0, 0.0]))
    np.testing.assert_allclose(answer.weights, [1 / 3, 1 / 3, 0, 1 / 3])
    assert answer.stopped == "1 rows vetoed"


@pytest.mark.parametrize(
    ("root", "message"),
    [
        (None, "needs a trusted update: call with root"),
        (np.array([-1.0, -1.0]), "all 3 rows point away"),
        (np.array([np.nan, 1.0]), "the root update is not finite"),
    ],
)
def test_a_veto_without_a_usable_root_update_is_refused(root, message):
    with pytest.raises(ConfigError, match=message):
        e.RootVeto(e.Mean())(np.ones((3, 2)), root=root)


def test_a_rule_inside_another_needs_the_root_update_too():
    assert e.Fence(f=1, inner=e.RootVeto(e.FilterL2(f=1))).needs_root()
    assert not e.Fence(f=1).needs_root()


def test_reputation_is_an_average_of_weights_in_shares_of_the_median():
    X = np.random.default_rng(3).normal(size=(9, 5))
    X[0] += 100
    rule = e.Reputation(e.FilterL2(f=1), decay=0.8)
    first = rule(X)
    assert first.reputation[0] == pytest.approx(0.8)  # 1 before, 0 now
    second = rule(X, reputation=first.reputation)
    assert second.reputation[0] == pytest.approx(0.64)


def test_honest_behavior_earns_no_credit_to_attack_with():
    rule, X = e.Reputation(e.FilterL2(f=3)), np.random.default_rng(4).normal(size=(15, 30))
    reputation = None
    for _ in range(50):
        reputation = rule(X, reputation=reputation).reputation
    X[:3] += 3
    assert rule(X, reputation=reputation).weights[:3].max() <= e.FilterL2(f=3)(X).weights[:3].max()
    assert reputation.max() <= 1


def test_reputation_of_mixed_rows_is_refused():
    with pytest.raises(ConfigError, match="rows that are mixed or cut have no memory"):
        e.NNM(0.2, inner=e.Reputation(e.FilterL2(0.2)))(np.eye(6))


def test_the_fence_selects_rows_only_where_many_may_be_malicious():
    X = np.random.default_rng(5).normal(size=(20, 30))
    few, many = e.Fence(f=3, select="auto")(X), e.Fence(f=4, select="auto")(X)
    np.testing.assert_array_equal(few.mean, e.Fence(f=3, select=False)(X).mean)
    np.testing.assert_array_equal(many.mean, e.Fence(f=4)(X).mean)


def test_without_selection_the_fence_is_winsorized_over_all_rows():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [100.0]])
    assert e.Fence(f=1, select=False)(X).mean.tolist() == [2.0]
    assert e.Fence(f=1, select=False, cut="trim")(X).mean.tolist() == [2.0]
    assert e.Fence(f=1, select=False, cut="nearest")(X).mean.tolist() == [2.0]
