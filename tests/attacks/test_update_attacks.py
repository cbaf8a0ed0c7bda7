"""One value worked by hand, or one property, of every attack on updates."""

import math
from dataclasses import replace

import numpy as np
import pytest

from f2ed import attacks as a
from f2ed.attacks.alie import largest_z
from f2ed.attacks.hidra import distance
from f2ed.core.errors import ConfigError
from f2ed.estimators import AlignIns, FilterL2, Krum, Mean, Median, Sections, TrimmedMean
from tests.attacks.attack_scenes import ALONE, contaminated, shard_means, view


def alone(**more):
    return view(shards=ALONE, kind=np.float64, **more)


def all_rows(seen, sent):
    return np.concatenate([seen.benign, sent])


# ALIE


def test_alie_z_for_50_clients_of_which_24_are_malicious():
    assert largest_z(50, 24) == pytest.approx(1.426, abs=1e-3)  # 2 of 26 honest needed: the 24/26 quantile


def test_alie_z_is_neither_negative_nor_infinite():
    assert largest_z(20, 1) == 0
    assert 0 < largest_z(20, 15) < 4


def test_alie_stands_z_deviations_behind_the_mean():
    seen = alone()
    sent = a.ALIE(z=1.5)(seen)
    np.testing.assert_allclose(sent[0], seen.benign.mean(0) - 1.5 * seen.benign.std(0))


def test_alie_with_partial_knowledge_uses_its_own_updates():
    seen = alone()
    sent = a.ALIE(z=1.5, knowledge="partial")(seen)
    np.testing.assert_allclose(sent[0], seen.own.mean(0) - 1.5 * seen.own.std(0))


# IPM, sign flip, Gaussian


def test_ipm_turns_the_mean_round_exactly_when_it_is_scaled_enough():
    seen = alone()  # 5 of 20: the mean turns beyond a scale of 3
    honest = seen.benign.mean(0)
    for scale, turned in ((2.9, False), (3.1, True)):
        mean = all_rows(seen, a.IPM(scale=scale)(seen)).mean(0)
        assert (mean @ honest < 0) == turned


def test_the_released_ipm_divides_the_honest_sum_by_all():
    seen = alone()
    np.testing.assert_allclose(a.IPM(variant="released")(seen)[0], -seen.benign.sum(0) / 20)


def test_sign_flip_turns_each_own_update():
    seen = alone()
    np.testing.assert_array_equal(a.SignFlip(scale=2.0)(seen), -2 * seen.own)


def test_gaussian_draws_each_row_and_round_independently():
    seen = alone(d=20_000)
    attack = a.Gaussian(mean=0.5, std=2.0)
    sent = attack(seen)
    assert sent.mean() == pytest.approx(0.5, abs=0.05)
    assert sent.std() == pytest.approx(2.0, abs=0.05)
    assert abs(np.corrcoef(sent[0], sent[1])[0, 1]) < 0.05
    assert not np.array_equal(attack(seen), sent)


# KA


@pytest.mark.parametrize("seed", range(5))
def test_krum_chooses_what_ka_sends_and_nothing_twice_as_far(seed):
    seen = alone(seed=seed, spread=2.0)
    sent = a.KrumAttack()(seen)
    heading = np.sign(all_rows(seen, seen.own).sum(0))
    factor = -sent[0][0] * heading[0]
    np.testing.assert_allclose(sent[0], -factor * heading)
    assert Krum(0.25)(all_rows(seen, sent)).weights[-5:].sum() == 1
    twice = np.tile(-2 * factor * heading, (5, 1))
    assert Krum(0.25)(all_rows(seen, twice)).weights[-5:].sum() == 0


def test_ka_surrounds_its_choice_by_accomplices_nearer_than_a_hundred_thousandth():
    seen = alone(spread=2.0)
    sent = a.KrumAttack()(seen)
    apart = np.abs(sent[1:] - sent[0]).max(axis=1)
    assert (apart > 0).all()
    assert (apart <= 1e-5 / 41).all()


def test_ka_starts_from_the_published_bound():
    seen = alone(spread=2.0)
    honest = seen.benign
    apart = np.linalg.norm(honest[:, None] - honest, axis=2).sum(1).min()
    bound = (apart / (20 - 2 * 5 - 1) + np.linalg.norm(honest, axis=1).max()) / math.sqrt(41)
    halvings = math.log2(bound / abs(a.KrumAttack()(seen)[0][0]))
    assert halvings == pytest.approx(round(halvings), abs=1e-6)


def test_ka_gives_up_where_krum_never_chooses_it():
    seen = alone(spread=2.0)
    far = replace(seen, benign=np.ones((15, 41)) * 100 + np.random.default_rng(0).normal(size=(15, 41)) * 1e-6)
    np.testing.assert_array_equal(a.KrumAttack()(far), seen.own)


def test_the_released_ka_searches_each_tensor_and_sends_a_failure_too():
    seen = alone(spread=2.0)
    small = np.where(np.arange(41) < 10, 0.01, 1.0)
    seen = replace(seen, own=seen.own * small, benign=seen.benign * small)
    sent = a.KrumAttack(variant="released")(seen)
    factors = np.abs(sent)
    for low, high in ((0, 10), (10, 30), (30, 41)):
        np.testing.assert_allclose(factors[:, low:high], factors[0, low])
        assert math.log2(factors[0, low]) == round(math.log2(factors[0, low]))
    assert len({float(factors[0, low]) for low in (0, 10, 30)}) > 1
    far = replace(seen, benign=np.ones((15, 41)) * 100 + np.random.default_rng(0).normal(size=(15, 41)) * 1e-6)
    assert (np.abs(a.KrumAttack(variant="released")(far)) < 1e-8).all()


# TMA


@pytest.mark.parametrize("space", ["updates", "weights"])
def test_tma_stands_beyond_all_honest_values_on_the_side_the_model_leaves(space):
    seen = alone()
    sent = a.TrimmedMeanAttack(space=space)(seen)
    up = all_rows(seen, seen.own).sum(0) > 0
    assert (sent[:, up] <= seen.benign.min(0)[up]).all()
    assert (sent[:, ~up] >= seen.benign.max(0)[~up]).all()


@pytest.mark.parametrize(
    ("sign", "values", "low", "high"),
    [
        (1, (2.0, 4.0), 1.0, 2.0),
        (1, (-2.0, 4.0), -4.0, -2.0),
        (-1, (-4.0, 2.0), 2.0, 4.0),
        (-1, (-4.0, -2.0), -2.0, -1.0),
    ],
)
def test_tma_draws_from_the_published_ranges(sign, values, low, high):
    seen = alone(d=4000)
    honest = np.full((15, 4000), values[0])
    honest[1:] = values[1] if sign > 0 else values[0]
    honest[0] = values[0] if sign > 0 else values[1]
    sent = a.TrimmedMeanAttack(b=2.0)(replace(seen, benign=honest, own=honest[-5:]))
    assert low <= sent.min() < low + 0.1 * (high - low)
    assert high - 0.1 * (high - low) < sent.max() <= high


def test_tma_with_partial_knowledge_stands_three_to_four_deviations_behind():
    seen = alone(d=4000)
    sent = a.TrimmedMeanAttack(knowledge="partial")(seen)
    behind = (seen.own.mean(0) - sent) / seen.own.std(0) * np.sign(seen.own.sum(0))
    assert behind.min() == pytest.approx(3, abs=0.01)
    assert behind.max() == pytest.approx(4, abs=0.01)


def test_the_released_tma_draws_once_for_all_and_multiplies_weights():
    seen = alone(d=4000)
    fresh, shared = a.TrimmedMeanAttack()(seen), a.TrimmedMeanAttack(variant="released")(seen)
    assert not np.array_equal(fresh[0], fresh[1])
    np.testing.assert_array_equal(shared[0], shared[4])
    up = all_rows(seen, seen.own).sum(0) > 0
    extreme = np.where(up, seen.benign.min(0), seen.benign.max(0)) + seen.model
    ratio = (shared[0] + seen.model) / extreme
    ratio = np.maximum(ratio, 1 / ratio)
    assert ratio.min() + 1e-9 >= 1
    assert 1.45 < ratio.max() <= 1.5 + 1e-9


# Min-Max and Min-Sum


@pytest.mark.parametrize("direction", ["mean", "sign", "spread"])
def test_min_max_is_as_far_as_it_may_be(direction):
    seen = alone()
    honest, mean = seen.benign, seen.benign.mean(0)
    widest = ((honest[:, None] - honest) ** 2).sum(2).max()
    sent = a.MinMax(direction=direction)(seen)[0]
    assert ((sent - honest) ** 2).sum(1).max() == pytest.approx(widest)
    farther = mean + 1.001 * (sent - mean)
    assert ((farther - honest) ** 2).sum(1).max() > widest


@pytest.mark.parametrize(("bound", "limit"), [("max", np.max), ("min", np.min)])
def test_min_sum_is_as_far_as_it_may_be(bound, limit):
    seen = alone()
    honest = seen.benign
    sums = ((honest[:, None] - honest) ** 2).sum(2).sum(1)
    sent = a.MinSum(bound=bound)(seen)[0]
    assert ((sent - honest) ** 2).sum() == pytest.approx(limit(sums))
    assert (sent - honest.mean(0)) @ honest.mean(0) < 0


# Mimic


def test_mimic_copies_the_client_that_sticks_out():
    seen = alone()
    honest = seen.benign.copy()
    honest[4] += 50
    np.testing.assert_array_equal(a.Mimic()(replace(seen, benign=honest)), np.tile(honest[4], (5, 1)))


def test_mimic_holds_to_a_named_client():
    seen = alone()
    np.testing.assert_array_equal(a.Mimic(client=4)(seen)[0], seen.benign[seen.honest.index(4)])


def test_mimic_refuses_to_copy_itself():
    with pytest.raises(ConfigError, match="client 16 is not an honest client"):
        a.Mimic(client=16)(alone())


def test_stretched_mimics_have_the_direction_of_at_most_five_honest_rows():
    seen = alone()
    sent = a.StretchedMimic(stretch=8.0)(seen)
    copied = [int(np.argmax(cosines(row, seen.benign))) for row in sent]
    factors = [np.linalg.norm(row) / np.linalg.norm(seen.benign[at]) for row, at in zip(sent, copied, strict=True)]
    assert all(cosines(row, seen.benign)[at] == pytest.approx(1) for row, at in zip(sent, copied, strict=True))
    assert 1 < factors[0] < 8
    assert factors == pytest.approx([factors[0]] * 5)


def test_stretched_mimics_move_a_rule_on_signs_and_angles_beyond_every_honest_row():
    shards, malicious = tuple((client,) for client in range(25)), tuple(range(10))
    seen = view(shards=shards, malicious=malicious, kind=np.float64, estimator=AlignIns(), d=400)
    seen = replace(seen, previous=seen.benign.mean(0))
    estimates = [
        seen.estimator(all_rows(seen, sent), previous=seen.previous).mean
        for sent in (a.StretchedMimic(shard_aware=False)(seen), a.Oracle(shard_aware=False)(seen))
    ]
    stretched, oracle = (np.linalg.norm(each) for each in estimates)
    longest = np.linalg.norm(seen.benign, axis=1).max()
    assert oracle < longest < stretched / 2


def cosines(row, rows):
    return rows @ row / np.linalg.norm(rows, axis=1) / np.linalg.norm(row)


# HIDRA, the edge and the oracle


def test_hidra_stands_as_far_as_its_formula_says():
    # ε = 1/4, τ = 1, √20 - 1 = 3.4721: √(3.4721 / (1/16 + 9/64)) = 4.1344
    assert distance(0.25, 1.0, math.sqrt(20)) == pytest.approx(4.1344, abs=1e-4)
    seen = alone()
    sent, mean = a.HIDRA(sections=None, tau=1.0)(seen)[0], all_rows(seen, seen.own).mean(0)
    assert np.linalg.norm(sent - mean) == pytest.approx(4.1344, abs=1e-4)
    assert (sent - mean) @ mean == pytest.approx(-4.1344 * np.linalg.norm(mean), abs=1e-3)


def test_hidra_works_in_each_section_of_each_tensor_alone():
    seen = alone()
    rows = all_rows(seen, seen.own)
    away = a.HIDRA(sections=7)(seen)[0] - rows.mean(0)
    for low, high in ((0, 7), (7, 10), (10, 17), (17, 24), (24, 30), (30, 37), (37, 41)):
        tau = np.linalg.eigvalsh(np.cov(rows[:, low:high].T, bias=True))[-1]
        assert np.linalg.norm(away[low:high]) == pytest.approx(distance(0.25, tau, math.sqrt(20)))


def test_hidra_passes_the_sectioned_filter_it_was_made_for():
    """The filter takes nothing away, so the bias is that of the plain mean: the formula of the attack's paper."""
    seen = alone(d=400)
    rows = all_rows(seen, seen.own)
    tau = np.linalg.eigvalsh(np.cov(rows.T, bias=True))[-1]
    sent = a.HIDRA(sections=None)(seen)
    rule = FilterL2(0.25, sigma=tau, eta=20, variant="released")  # content at λ ≤ √20 τ
    answer = rule(all_rows(seen, sent))
    assert answer.iterations == 0
    moved = 15 / 20 * seen.benign.mean(0) + 5 / 20 * sent[0]
    np.testing.assert_allclose(answer.mean, moved)


def test_the_edge_is_where_the_filter_in_use_is_just_content():
    seen = alone(estimator=Sections(FilterL2(0.25, sigma=2.0, eta=9.0)))
    rows = all_rows(seen, a.Edge()(seen))
    step = seen.benign.mean(0) / np.linalg.norm(seen.benign.mean(0))
    assert np.var(rows @ step) == pytest.approx(36.0)


def test_the_edge_of_a_filter_without_a_bound_stays_below_the_honest_variance():
    seen = alone(estimator=FilterL2(0.25))
    rows, honest = all_rows(seen, a.Edge()(seen)), seen.benign
    step = honest.mean(0) / np.linalg.norm(honest.mean(0))
    assert np.var(rows @ step) == pytest.approx(0.99 * np.linalg.eigvalsh(np.cov(honest.T, bias=True))[-1])


@pytest.mark.parametrize("rule", [FilterL2(0.25), Krum(0.25), Median(), TrimmedMean(0.25), Mean()], ids=repr)
@pytest.mark.parametrize("direction", ["mean", "sign", "spread", "principal"])
def test_the_oracle_moves_the_estimator_in_use_farther_than_any_other_distance_tried(rule, direction):
    seen = alone(estimator=rule)
    honest = seen.benign
    mean = honest.mean(0)
    sent = a.Oracle(direction=direction)(seen)[0]
    reached = np.linalg.norm(sent - mean)
    step = (sent - mean) / reached

    def moved(distance):
        return float((rule(all_rows(seen, np.tile(mean + distance * step, (5, 1)))).mean - mean) @ step)

    reach = np.sqrt(((honest - mean) ** 2).sum(1).mean())
    tried = reach * np.geomspace(0.02, 20, 16)
    assert np.abs(tried / reached - 1).min() < 1e-9
    assert moved(reached) == pytest.approx(max(moved(distance) for distance in tried))


def test_the_oracle_tells_rules_on_the_gram_matrix_the_same_by_either_way():
    seen = alone(estimator=Krum(0.25))
    direct = alone(estimator=Sections(Krum(0.25), size=None))  # the same rule, but not on the Gram matrix
    np.testing.assert_allclose(a.Oracle()(seen), a.Oracle()(direct))


def test_the_oracle_tries_the_estimator_with_the_last_estimate():
    rule = AlignIns()
    seen = alone(estimator=rule)
    seen = replace(seen, previous=seen.benign.mean(0))
    tried = a.Oracle()(seen)

    def moved(distance):
        mean = seen.benign.mean(0)
        step = -mean / np.linalg.norm(mean)
        rows = all_rows(seen, np.tile(mean + distance * step, (5, 1)))
        return float((rule(rows, previous=seen.previous).mean - mean) @ step)

    spread = np.sqrt(((seen.benign - seen.benign.mean(0)) ** 2).sum(1).mean())
    best = max(spread * np.geomspace(0.02, 20, 16), key=moved)
    assert np.linalg.norm(tried[0] - seen.benign.mean(0)) == pytest.approx(best)
    assert not np.allclose(tried, a.Oracle()(replace(seen, previous=None)))


# Shards


def test_a_shard_aware_attack_lands_the_shard_means_on_its_target():
    seen = view(kind=np.float64)
    clean = shard_means(seen, seen.own)[[0, 2]]
    landed = shard_means(seen, a.ALIE(z=1.5, shard_aware=True)(seen))[contaminated(seen)]
    np.testing.assert_allclose(landed, np.tile(clean.mean(0) - 1.5 * clean.std(0), (3, 1)))


def test_a_lone_attacker_sends_the_size_of_its_shard_times_the_target_less_the_others():
    seen = view(kind=np.float64, malicious=(1,))
    target = -0.1 * shard_means(seen, seen.own)[[0, 2, 3, 4]].mean(0)
    others = seen.benign[[seen.honest.index(client) for client in (5, 9, 13)]].sum(0)
    np.testing.assert_allclose(a.IPM(shard_aware=True)(seen)[0], 4 * target - others)


def test_with_partial_knowledge_the_others_are_taken_for_the_mean_of_the_own_updates():
    seen = view(kind=np.float64)
    own = seen.own.mean(0)
    sent = a.IPM(shard_aware=True, knowledge="partial")(seen)
    np.testing.assert_allclose(sent[3], 4 * -0.1 * own - 3 * own)  # client 1, alone in its shard
    np.testing.assert_allclose(sent[1], (4 * -0.1 * own - 2 * own) / 2)  # clients 3 and 7 share one
    np.testing.assert_array_equal(sent[1], sent[2])


def test_with_partial_knowledge_shard_means_are_taken_to_vary_less_than_clients():
    seen = view(kind=np.float64)
    sent = a.ALIE(z=1.0, shard_aware=True, knowledge="partial")(seen)
    own, spread = seen.own.mean(0), seen.own.std(0) / 2  # shards of four
    np.testing.assert_allclose(sent[3], 4 * (own - spread) - 3 * own)


def test_an_attack_counts_clients_or_shards():
    seen = view(kind=np.float64)  # 5 of 20 clients in 3 of 5 shards
    shares = []
    for aware in (False, True):
        sent = a.IPM(variant="released", shard_aware=aware)(seen)
        rows, at = (shard_means(seen, sent), 3) if aware else (sent, 0)
        honest = shard_means(seen, seen.own)[[0, 2]].mean(0) if aware else seen.benign.mean(0)
        shares.append(1 + float(rows[at] @ honest / (honest @ honest)))
    assert shares == pytest.approx([5 / 20, 3 / 5])


# The view


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"malicious": ()}, "at least one"),
        ({"malicious": (1, 1, 3, 7, 19)}, "each once"),
        ({"malicious": (16, 3, 7, 1, 99)}, "exactly one shard"),
        ({"own": np.zeros((4, 41))}, r"own updates have shape \(4, 41\); expected \(5, 41\)"),
        ({"benign": np.zeros((15, 40))}, r"benign updates have shape \(15, 40\); expected \(15, 41\)"),
        ({"tensors": (10, 20)}, "must add up to 41"),
    ],
)
def test_a_view_that_does_not_fit_together_is_refused(change, says):
    with pytest.raises(ConfigError, match=says):
        replace(view(), **change)
