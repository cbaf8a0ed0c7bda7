"""Clients that count by their number of samples: public, capped, and under masks."""

from itertools import pairwise

import numpy as np
import pytest

from f2ed.attacks import AttackerView
from f2ed.attacks._common.placement import land
from f2ed.attacks._common.scene import survey
from f2ed.core.errors import ConfigError
from f2ed.estimators import Mean
from f2ed.simulation import Simulation, experiment
from f2ed.simulation.header import digest
from tests.simulation.small_run import SMALL

UNEVEN = [12, 20, 24, 28, 14, 18, 22, 30, 16, 16, 20, 20]
"""Samples of each client."""


def settings(**changed):
    ends = np.cumsum([0, *UNEVEN])
    lists = tuple(tuple(range(start, end)) for start, end in pairwise(ends))
    partition = {"kind": "assigned", "clients": lists}
    return SMALL | {"partition": partition, "malicious": 0, "client_weights": "samples", "rounds": 2} | changed


def run(**changed):
    simulation = Simulation(experiment(settings(**changed)), workers=1)
    return simulation, list(simulation.rounds())


def trained(simulation):
    """Return every client's update in the first round."""
    from f2ed.simulation.stopwatch import Stopwatch

    start = simulation.start()
    shards = simulation._assignments(0).shards
    updates, _ = simulation._local_updates(start, shards, Stopwatch(simulation.device))
    return start.model.numpy(), updates.numpy().astype(np.float64)


@pytest.mark.parametrize("shards", [4, "none"])
def test_the_mean_is_that_of_all_samples(shards):
    simulation, rounds = run(estimator="mean", shards=shards)
    first, updates = trained(simulation)
    moved = rounds[0][0].model.numpy().astype(np.float64) - first
    np.testing.assert_allclose(moved, np.average(updates, axis=0, weights=UNEVEN), atol=4e-6)
    assert np.abs(moved - updates.mean(axis=0)).max() > 1e-4


def test_masked_equals_plain():
    models = [run(secure=secure)[1][-1][0].model for secure in (True, False)]
    assert np.array_equal(*models)


def test_the_cap_limits_what_a_client_counts():
    simulation, rounds = run(estimator="mean", max_weight=20)
    first, updates = trained(simulation)
    moved = rounds[0][0].model.numpy().astype(np.float64) - first
    np.testing.assert_allclose(moved, np.average(updates, axis=0, weights=np.minimum(UNEVEN, 20)), atol=4e-6)


def test_the_record_says_what_each_shard_counted():
    simulation, rounds = run()
    shards = simulation.header.shards
    counted = {number: sum(UNEVEN[client] for client in members) for number, members in enumerate(shards)}
    assert rounds[0][1].counted == counted
    assert rounds[0][1].leak.crowd == 3


def test_clients_with_equally_many_samples_give_the_bits_of_equal_weights():
    same = SMALL | {"malicious": 0}
    models = [
        [state.model for state, _ in Simulation(experiment(same | weights), workers=1).rounds()][-1]
        for weights in ({}, {"client_weights": "samples"})
    ]
    assert np.array_equal(*models)


def test_equal_weights_are_the_default_and_rename_no_run():
    assert digest(experiment(SMALL)) == digest(experiment(SMALL | {"client_weights": "equal"}))


def test_dropouts_leave_with_their_weight():
    _, rounds = run(estimator="mean", client_dropout=0.3, shards="none", rounds=1)
    record = rounds[0][1]
    assert record.dropped
    assert record.counted == {client: UNEVEN[client] for client in range(12) if client not in record.dropped}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"max_weight": 0}, "max_weight"),
        ({"client_weights": "size"}, "client_weights: expected one of 'equal', 'samples'"),
        ({"client_weights": "equal", "max_weight": 5}, "max_weight: all clients count the same"),
        ({"estimator": {"kind": "bulyan", "f": 0}}, "client_weights: Bulyan has no version for rows"),
        ({"clip_norm": 1.0, "dp": 1.0}, "dp: what noise costs is not known"),
        ({"partition": "heavy"}, "client_weights: a member of weight .* lower the cap"),
        ({"partition": "heavy", "schedule": "every-round"}, "client_weights: a member of weight .* lower the cap"),
    ],
)
def test_what_cannot_work_is_refused(changed, reason):
    if changed.get("partition") == "heavy":
        lists = [tuple(range(100)), *(tuple(range(100 + 5 * i, 105 + 5 * i)) for i in range(11))]
        changed = changed | {"partition": {"kind": "assigned", "clients": lists}}
    with pytest.raises(ConfigError, match=reason):
        run(**changed)


def test_a_capped_attacker_is_refused_no_more():
    lists = [tuple(range(100)), *(tuple(range(100 + 5 * i, 105 + 5 * i)) for i in range(11))]
    _, rounds = run(partition={"kind": "assigned", "clients": lists}, max_weight=8, rounds=1)
    assert sorted(rounds[0][1].counted.values()) == [15, 15, 15, 18]


def test_an_attacker_that_knows_the_weights_hits_its_target():
    rng, weights = np.random.default_rng(0), {0: 3, 1: 5, 2: 2, 3: 4, 4: 1, 5: 6}
    shards = ((0, 1, 2), (3, 4, 5))
    view = AttackerView(
        own=rng.normal(size=(1, 4)),
        benign=rng.normal(size=(5, 4)),
        model=np.zeros(4),
        estimator=Mean(),
        shards=shards,
        malicious=(1,),
        tensors=(4,),
        round=0,
        rng=rng,
        weights=weights,
    )
    scene, target = survey(view, "full", shard_aware=True), rng.normal(size=(1, 4))
    np.testing.assert_allclose(scene.honest, (4 * view.benign[2:3] + view.benign[3:4] + 6 * view.benign[4:5]) / 11)
    (sent,) = land(target, scene)
    np.testing.assert_allclose((3 * view.benign[0] + 5 * sent + 2 * view.benign[1]) / 10, target[0])
    assert [list(each) for each in scene.weights] == [[11.0], [10.0]]


@pytest.mark.parametrize("estimator", ["filter-l2", "median"])
def test_an_oracle_attacks_a_weighted_rule(estimator):
    _, rounds = run(malicious=2, attack="oracle", estimator=estimator, rounds=1)
    assert rounds[0][1].skipped is None
