import numpy as np
import pytest

from f2ed.audit.membership import auc
from f2ed.audit.suspicion import ShardWeights, Suspicion
from f2ed.core.errors import ConfigError
from f2ed.guarantees.leakage.forecast import opened_sums
from f2ed.protocol.sharding import EveryRound, Fixed

CLIENTS, SHARDS = 60, 15
MALICIOUS = [3, 17, 29, 41, 55]


def played(schedule, rounds, rejected_contaminated=0.8, rejected_clean=0.1, seed=0):
    """Return rounds in which contaminated and clean shards are rejected at these rates."""
    rng = np.random.default_rng(seed)
    out = []
    for shards in opened_sums(clients=CLIENTS, shards=SHARDS, schedule=schedule, rounds=rounds, seed=seed):
        contaminated = [bool(set(shard) & set(MALICIOUS)) for shard in shards]
        low = [rng.random() < (rejected_contaminated if bad else rejected_clean) for bad in contaminated]
        out.append(ShardWeights(shards, [0.0 if each else 1.0 for each in low]))
    return out


def separation(found):
    guilty = np.isin(np.arange(CLIENTS), MALICIOUS)
    return auc(found[guilty], found[~guilty])


@pytest.mark.parametrize("seed", range(3))
def test_attackers_stand_out_where_clients_are_resharded(seed):
    found = Suspicion()(CLIENTS, played(EveryRound(), 30, seed=seed))
    assert separation(found) > 0.99
    assert set(np.flatnonzero(found > 0.5)) == set(MALICIOUS)


def test_more_rounds_tell_more():
    few, many = (
        np.mean([separation(Suspicion()(CLIENTS, played(EveryRound(), rounds, 0.5, 0.2, seed))) for seed in range(4)])
        for rounds in (3, 60)
    )
    assert few < many
    assert many > 0.97


def test_fixed_shards_do_not_distinguish_their_members():
    rounds = played(Fixed(), 40)
    found = Suspicion()(CLIENTS, rounds)
    for shard in rounds[0].shards:
        assert np.ptp(found[list(shard)]) < 1e-9


def test_without_rejected_shards_nobody_is_suspected():
    rounds = [ShardWeights(each.shards, [1.0] * SHARDS) for each in played(EveryRound(), 20)]
    assert Suspicion()(CLIENTS, rounds).max() < 0.1


def test_a_client_in_no_shard_keeps_the_expected_probability():
    found = Suspicion(expected=0.2)(4, [ShardWeights([(0, 1)], [1.0])])
    assert found[2:] == pytest.approx(0.2)


def test_weights_must_be_as_many_as_shards():
    with pytest.raises(ConfigError, match="one weight for each shard"):
        Suspicion()(4, [ShardWeights([(0, 1), (2, 3)], [1.0])])
