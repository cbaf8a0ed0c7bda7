"""Every backdoor works however the data and the shards are arranged."""

import pytest

from f2ed.simulation import simulate
from tests.attacks.attack_examples import ALL, name

SETTINGS = {
    "data": {"kind": "synthetic", "train": 240, "test": 60, "side": 6},
    "model": {"kind": "mlp", "hidden": [8]},
    "clients": 12,
    "malicious": 2,
    "shards": 4,
    "rounds": 2,
    "attack_from": 1,
    "secure": False,
    "estimator": "median",
}
ARRANGED = {
    "i.i.d.": {"placement": "packed"},
    "three classes": {"partition": {"kind": "pathological", "classes_per_client": 3}},
    "Dirichlet": {"partition": {"kind": "dirichlet", "alpha": 0.5}},
    "no shards": {"shards": "none"},
    "pairs": {"schedule": {"kind": "batches", "size": 2}, "shards": 3, "placement": "spread"},
}
BACKDOORS = [attack for attack in ALL if type(attack).family == "backdoor"]


@pytest.mark.parametrize("arranged", ARRANGED)
@pytest.mark.parametrize("attack", BACKDOORS, ids=name)
def test_a_backdoor_is_trained_sent_and_measured(attack, arranged):
    before, after = simulate(SETTINGS | ARRANGED[arranged] | {"attack": attack}).records
    assert 0 <= before.success <= 1
    assert 0 <= after.success <= 1
    assert after.contaminated
