import numpy as np
import pytest

from f2ed.audit.membership import area
from f2ed.audit.suspicion import Round, Suspicion
from f2ed.core.errors import ConfigError
from f2ed.guarantees.leakage.forecast import opened_sums
from f2ed.protocol.sharding import EveryRound, Fixed

CLIENTS, SHARDS = 60, 15
MALICIOUS = [3, 17, 29, 41, 55]


def played(schedule, rounds, caught=0.8, wronged=0.1, seed=0):
    """Return rounds in which spoilt shards lose their weight with one chance, and clean ones with another."""
    rng = np.random.default_rng(seed)
    out = []
    for shards in opened_sums(clients=CLIENTS, shards=SHARDS, schedule=schedule, rounds=rounds, seed=seed):
        spoilt = [bool(set(shard) & set(MALICIOUS)) for shard in shards]
        low = [rng.random() < (caught if bad else wronged) for bad in spoilt]
        out.append(Round(shards, [0.0 if each else 1.0 for each in low]))
    return out


def told_apart(found):
    guilty = np.isin(np.arange(CLIENTS), MALICIOUS)
    return area(found[guilty], found[~guilty])


@pytest.mark.parametrize("seed", range(3))
def test_attackers_stand_out_where_shards_are_dealt_anew(seed):
    found = Suspicion()(CLIENTS, played(EveryRound(), 30, seed=seed))
    assert told_apart(found) > 0.99
    assert set(np.flatnonzero(found > 0.5)) == set(MALICIOUS)


def test_more_rounds_tell_more():
    few, many = (
        np.mean([told_apart(Suspicion()(CLIENTS, played(EveryRound(), rounds, 0.5, 0.2, seed))) for seed in range(4)])
        for rounds in (3, 60)
    )
    assert few < many
    assert many > 0.97


def test_fixed_shards_tell_nobody_from_the_company_it_keeps():
    rounds = played(Fixed(), 40)
    found = Suspicion()(CLIENTS, rounds)
    for shard in rounds[0].shards:
        assert np.ptp(found[list(shard)]) < 1e-9


def test_without_attackers_and_without_doubts_nobody_is_suspected():
    rounds = [Round(each.shards, [1.0] * SHARDS) for each in played(EveryRound(), 20)]
    assert Suspicion()(CLIENTS, rounds).max() < 0.1


def test_who_was_never_there_keeps_what_was_expected():
    found = Suspicion(expected=0.2)(4, [Round([(0, 1)], [1.0])])
    assert found[2:] == pytest.approx(0.2)


def test_weights_must_be_as_many_as_shards():
    with pytest.raises(ConfigError, match="one weight for each shard"):
        Suspicion()(4, [Round([(0, 1), (2, 3)], [1.0])])
