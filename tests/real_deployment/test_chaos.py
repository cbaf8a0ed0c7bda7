"""Real processes under faults that are drawn from a seed: nothing is lost, nothing small opens, each fault is named."""

from collections import Counter
from types import SimpleNamespace

import pytest

from tests.real_deployment.chaos import checks
from tests.real_deployment.chaos.faults import KINDS, OF_THE_SERVER, ROTATIONS, Fault, drawn
from tests.real_deployment.chaos.soak import soak


def test_a_seed_draws_every_kind_of_fault_and_the_same_plan_again():
    plan = drawn(3, nodes=30, rounds=12)
    assert plan == drawn(3, nodes=30, rounds=12) != drawn(4, nodes=30, rounds=12)
    assert {fault.kind for fault in plan} == set(KINDS)
    assert all(1 <= fault.round <= 12 for fault in plan)
    hard = Counter(fault.round for fault in plan if fault.kind in (*OF_THE_SERVER, *ROTATIONS))
    assert max(hard.values()) == 1
    assert 1 not in hard
    with pytest.raises(ValueError, match="8 rounds are too few for every fault; give 9 or more"):
        drawn(3, nodes=30, rounds=8)


def test_a_fault_that_no_log_names_is_noticed(tmp_path):
    (tmp_path / "run.log").write_text("client 3 (client_3): its node stopped answering: it ended")
    (tmp_path / "run.jsonl").write_text('{"dropped":{"4":"late: no reply within 30 s"}}')
    stage = SimpleNamespace(
        folder=tmp_path, records=tmp_path / "run.jsonl", log=lambda _: "clock: this machine is 9 s ahead"
    )
    faults = [Fault("node-killed", 1, client=client) for client in (3, 4, 5)]
    faults += [Fault("clock-ahead", 1, client=6), Fault("server-disk-full", 2)]
    found = checks.named(stage, [(fault, 0.0) for fault in faults])
    assert [words is not None for _, words in found] == [True, True, False, True, False]


@pytest.mark.nightly
def test_nine_nodes_survive_every_kind_of_fault(tmp_path):
    injector = soak(tmp_path, nodes=8, shards=2, rounds=9, seed=1, patience=2400.0)
    assert not injector.left
