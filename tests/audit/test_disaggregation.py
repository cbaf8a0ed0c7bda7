import numpy as np
import pytest

from f2ed.audit.disaggregation import Disaggregator, cosines, relative_errors
from f2ed.guarantees.leakage.forecast import forecast_leak, opened_sums, recovered_cosine
from f2ed.protocol.sharding import EveryRound, Fixed
from f2ed.protocol.sharding.schedule import Batches

CLIENTS, SHARDS, COORDINATES = 40, 10, 600


def solve(schedule, rounds, *, noise=0.0, ridge=1e-9, client_dropout=0.0, mode="all-or-nothing"):
    rng = np.random.default_rng(0)
    stays = rng.standard_normal((CLIENTS, COORDINATES))
    solver = Disaggregator(CLIENTS, COORDINATES)
    seen = list(
        opened_sums(
            clients=CLIENTS, shards=SHARDS, schedule=schedule, rounds=rounds, client_dropout=client_dropout, mode=mode
        )
    )
    for sums in seen:
        updates = stays + noise * rng.standard_normal(stays.shape) + rng.standard_normal(COORDINATES)
        solver.observe(sums, [updates[list(some)].mean(axis=0) for some in sums])
    centerd = stays - stays.mean(axis=0)
    found = solver.solve(ridge)
    return cosines(centerd, found), relative_errors(centerd, found - found.mean(axis=0)), seen


def test_updates_that_never_change_are_solved_for_exactly():
    cosine, error, _ = solve(EveryRound(), 8)
    assert cosine.min() > 0.9999
    assert error.max() < 1e-3


@pytest.mark.parametrize("schedule", [Fixed(), Batches(2)])
def test_clients_that_stay_together_stay_hidden_among_each_other(schedule):
    size = 4 if isinstance(schedule, Fixed) else 2
    cosine, _, _ = solve(schedule, 60)
    assert cosine.mean() == pytest.approx(1 / np.sqrt(size), abs=0.06)


def test_the_meter_predicts_what_ridge_regression_reaches():
    cosine, _, seen = solve(EveryRound(), 15, noise=1.0, ridge=1.0)
    assert cosine.mean() == pytest.approx(recovered_cosine(CLIENTS, seen).mean(), abs=0.03)


def test_drop_outs_open_fixed_shards_in_the_tolerant_mode_alone():
    tolerant, _, _ = solve(Fixed(), 80, client_dropout=0.15, mode="dropout-tolerant")
    closed, _, _ = solve(Fixed(), 80, client_dropout=0.15)
    assert tolerant.mean() > 0.9
    assert closed.mean() < 0.6


def test_a_round_in_which_no_shard_opened_changes_nothing():
    solver = Disaggregator(4, 3)
    solver.observe([(0, 1), (2, 3)], np.eye(2, 3))
    before = solver.solve()
    solver.observe([], [])
    assert solver.rounds == 2
    assert (solver.solve() == before).all()


def test_a_zero_vector_has_no_direction():
    assert cosines(np.ones((1, 3)), np.zeros((1, 3))).tolist() == [0.0]


@pytest.mark.parametrize(("schedule", "mean"), [(EveryRound(), 0.99), (Fixed(), 0.5)])
def test_a_hundred_clients_in_shards_of_four_over_a_hundred_rounds(schedule, mean):
    """Resharding recovers single clients; fixed shards stay at 1/√s, as the meter predicts."""
    rng = np.random.default_rng(3)
    stays = rng.standard_normal((100, 400))
    solver, reached = Disaggregator(100, 400), []
    for number, sums in enumerate(opened_sums(clients=100, shards=25, schedule=schedule, rounds=100), 1):
        updates = stays + 0.3 * rng.standard_normal(stays.shape)
        solver.observe(sums, [updates[list(some)].mean(axis=0) for some in sums])
        if number in (1, 3, 10, 30, 100):
            reached.append(cosines(stays - stays.mean(axis=0), solver.solve(0.09)))
    predicted = forecast_leak(clients=100, shards=25, schedule=schedule, rounds=100)
    assert reached[-1].mean() == pytest.approx(mean, abs=0.02)
    assert reached[-1].mean() == pytest.approx(predicted.cosine, abs=0.02)
    if isinstance(schedule, Fixed):
        assert max(each.mean() for each in reached) <= 1 / np.sqrt(4) + 0.01
        assert not predicted.leaks
    else:
        assert reached[-1].min() > 0.9
        assert predicted.exposed == 100
