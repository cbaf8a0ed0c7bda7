import math

import numpy as np
import pytest

from f2ed.core.errors import ConfigError
from f2ed.guarantees.leakage.exposure import exposure
from f2ed.guarantees.leakage.forecast import forecast_leak, opened_sums, recovered_cosine, safe_k, smallest_k
from f2ed.guarantees.leakage.rowspace import RowSpace
from f2ed.protocol.sharding import EveryKRounds, EveryRound, Fixed
from f2ed.protocol.sharding.schedule import Batches
from f2ed.records import text


def dense(clients, sums):
    rows = np.zeros((len(sums), clients))
    for row, some in zip(rows, sums, strict=True):
        row[list(some)] = 1
    return rows


def solved_for(rows):
    """Return which unit vectors least squares finds in the row space."""
    return np.abs(np.diag(np.linalg.pinv(rows) @ rows) - 1) < 1e-7


@pytest.mark.parametrize("seed", range(12))
def test_the_space_agrees_with_floating_point_on_small_random_sums(seed):
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(2, 70))
    rows = [np.flatnonzero(rng.random(columns) < rng.uniform(0.05, 0.6)) for _ in range(int(rng.integers(1, 90)))]
    space = RowSpace(columns)
    for start in range(0, len(rows), 7):
        space.add(rows[start : start + 7])
        seen = dense(columns, rows[: start + 7])
        assert space.rank == np.linalg.matrix_rank(seen)
        assert space.single().tolist() == solved_for(seen).tolist()


@pytest.mark.parametrize("schedule", [EveryRound(), EveryKRounds(k=3), Fixed(), Batches(2), Batches(2, k=2)])
@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
@pytest.mark.parametrize("client_dropout", [0.0, 0.15])
def test_exposure_agrees_with_floating_point_after_every_round(schedule, mode, client_dropout):
    rounds = list(
        opened_sums(
            clients=40, shards=8, schedule=schedule, rounds=12, client_dropout=client_dropout, mode=mode, seed=3
        )
    )
    found = exposure(40, rounds)
    seen = np.zeros((0, 40))
    for number, sums in enumerate(rounds, 1):
        seen = np.concatenate([seen, dense(40, sums)])
        assert found.ranks[number - 1] == np.linalg.matrix_rank(seen)
        by_now = [after is not None and after <= number for after in found.exposed_after]
        assert by_now == solved_for(seen).tolist()


def test_two_assignments_that_swap_one_pair_expose_nobody_but_a_smaller_sum_exposes_the_difference():
    swapped = exposure(5, [[(0, 1, 2, 3)], [(0, 1, 2, 4)]])
    assert swapped.exposed == 0
    dropped = exposure(5, [[(0, 1, 2, 3)], [(0, 1, 2)]])
    assert dropped.exposed_after == (None, None, None, 2, None)
    assert (dropped.first, dropped.last, dropped.crowd) == (2, None, 1)


def test_resharding_each_round_exposes_everyone_after_about_n_over_p_rounds():
    found = forecast_leak(clients=100, shards=25, schedule=EveryRound(), rounds=100)
    assert found.leaks
    assert found.exposed == 100
    assert found.last == 5
    assert found.cosine > 0.99
    assert found.effective_crowd == pytest.approx(1, abs=0.02)
    assert "determine all 100 clients individually, after 5 rounds" in text.leak(
        found.record(), rounds=100, clients=100
    )


def test_each_assignment_adds_all_its_equations_but_one_until_everyone_is_determined():
    found = exposure(600, list(opened_sums(clients=600, shards=60, schedule=EveryRound(), rounds=20)))
    assert found.ranks[:10] == tuple(59 * assignments + 1 for assignments in range(1, 11))
    assert found.ranks[11:] == (600,) * 9
    assert found.first == found.last == 11


def test_fixed_shards_expose_nobody_and_stay_at_one_over_root_s():
    found = forecast_leak(clients=100, shards=25, schedule=Fixed(), rounds=100)
    assert not found.leaks
    assert found.crowd == 4
    assert 0.49 < found.cosine <= found.single_round_cosine == 0.5
    assert "no group smaller than 4" in text.leak(found.record(), rounds=100, clients=100)


def test_fixed_shards_leak_where_dropouts_open_smaller_sums():
    tolerant = {"clients": 60, "shards": 6, "schedule": Fixed(), "rounds": 60, "client_dropout": 0.1}
    assert forecast_leak(**tolerant, mode="dropout-tolerant").exposed == 60
    assert forecast_leak(**tolerant, mode="all-or-nothing").exposed == 0


def test_batches_stay_together_and_nobody_is_distinguished_from_its_batch():
    found = forecast_leak(clients=96, shards=12, schedule=Batches(4), rounds=50)
    assert not found.leaks
    assert found.crowd == 4
    assert found.cosine <= math.sqrt(1 / 4)


def test_every_client_of_a_batch_is_in_the_same_shard_in_every_epoch():
    roster = dict.fromkeys(range(26), b"")
    plans = [Batches(4).assign(roster, shards=3, epoch=epoch, seed=b"x") for epoch in range(5)]
    for plan in plans:
        assert sorted(client for shard in plan.shards for client in shard) == list(range(26))
    company = [{c: set(plan.shards[plan.shard_of(c)]) for c in roster} for plan in plans]
    for client in roster:
        assert len(set.intersection(*(each[client] for each in company))) >= 4
    assert len({plan.shards for plan in plans}) > 1


def test_batches_that_are_too_large_are_refused():
    with pytest.raises(ConfigError, match="use batches of at most 3"):
        Batches(4).assign(dict.fromkeys(range(30), b""), shards=10, epoch=0, seed=b"")


@pytest.mark.parametrize(("rounds", "reached"), [(10, 0.78), (100, 0.98)])
def test_least_squares_reaches_what_the_protocol_states_for_a_hundred_clients(rounds, reached):
    sums = list(opened_sums(clients=100, shards=25, schedule=EveryRound(), rounds=rounds))
    assert recovered_cosine(100, sums, least_squares=True).mean() == pytest.approx(reached, abs=0.015)


@pytest.mark.parametrize("schedule", [EveryRound(), EveryKRounds(k=5), Fixed(), Batches(2)])
def test_the_predicted_cosine_is_the_one_that_least_squares_reaches(schedule):
    clients, rounds, noise = 40, 20, 0.7
    sums = list(opened_sums(clients=clients, shards=10, schedule=schedule, rounds=rounds, client_dropout=0.02))
    rng = np.random.default_rng(0)
    stays = rng.standard_normal((clients, 4000))
    rows, seen = [], []
    for some in sums:
        matrix = dense(clients, some) / np.sqrt([len(each) for each in some])[:, None]
        rows.append(matrix)
        seen.append(matrix @ (stays + noise * rng.standard_normal(stays.shape)))
    found = np.linalg.lstsq(np.concatenate(rows), np.concatenate(seen), rcond=1e-9)[0]
    cosine = np.sum(found * stays, 1) / np.linalg.norm(found, axis=1) / np.linalg.norm(stays, axis=1)
    predicted = recovered_cosine(clients, sums, noise=noise, least_squares=True)
    np.testing.assert_allclose(cosine, predicted, atol=0.06)
    assert (recovered_cosine(clients, sums, noise=noise) >= predicted - 1e-9).all()


def test_the_cosine_hardly_depends_on_the_number_of_clients():
    few = forecast_leak(clients=200, shards=50, schedule=EveryRound(), rounds=8).cosine
    many = forecast_leak(clients=1000, shards=250, schedule=EveryRound(), rounds=8).cosine
    assert few == pytest.approx(many, abs=0.01)


def test_the_k_it_recommends_hides_everyone_as_among_the_crowd_and_one_less_does_not():
    setting = {"clients": 120, "shards": 10, "rounds": 60}
    k = smallest_k(**setting, crowd=3)
    assert forecast_leak(**setting, schedule=EveryKRounds(k), noise=0.1).effective_crowd == pytest.approx(3, abs=0.3)
    assert forecast_leak(**setting, schedule=EveryKRounds(k - 5), noise=0.1).effective_crowd < 2.6


@pytest.mark.parametrize("shards", [25, 10])
def test_the_k_of_the_meter_does_not_leak_and_hardly_a_smaller_one_would_do(shards):
    setting = {"clients": 100, "shards": shards, "rounds": 60}
    k = safe_k(**setting)
    assert not forecast_leak(**setting, schedule=EveryKRounds(k)).leaks
    assignments = -(-60 // k)
    assert forecast_leak(**setting, schedule=EveryKRounds(60 // (assignments + 2))).leaks


def test_no_k_is_safe_where_dropouts_open_smaller_sums():
    with pytest.raises(ConfigError, match="Use all-or-nothing"):
        safe_k(clients=60, shards=6, rounds=60, client_dropout=0.1, mode="dropout-tolerant")


def test_that_nobody_is_determined_exactly_is_not_enough():
    found = forecast_leak(clients=100, shards=25, rounds=100, schedule=EveryKRounds(30))
    assert found.exposed == 0
    assert found.cosine > 0.9
    assert found.leaks
    assert "determine no single client" in text.leak(found.record(), rounds=100, clients=100)


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"shards": 11}, {"shards": 0}, {"client_dropout": 1.0}])
def test_what_cannot_be_measured_is_refused(wrong):
    with pytest.raises(ConfigError):
        forecast_leak(**({"clients": 10, "shards": 5, "schedule": Fixed(), "rounds": 3} | wrong))
