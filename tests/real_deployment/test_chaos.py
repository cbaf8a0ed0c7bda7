"""Real processes under faults that are drawn from a seed: nothing is lost, nothing small opens, each fault is named."""

import time
from collections import Counter
from types import SimpleNamespace

import pytest

from tests.real_deployment.chaos import checks
from tests.real_deployment.chaos.faults import KINDS, OF_THE_SERVER, ROTATIONS, Fault, drawn
from tests.real_deployment.chaos.inject import Injector
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


def test_a_fault_that_no_log_names_is_noticed():
    lines = [
        (5.0, "client 8 (client_8): not connected"),
        (20.0, "client 3 (node 77): its node stopped answering: it ended"),
        (21.0, "2 dropped (client 4 (client_4): late: no reply within 30 s; client 5 (client_5): refused)"),
        (22.0, "node 9 is client 6 (client_6)"),
    ]
    stage = SimpleNamespace(lines=lines, log=lambda _: "clock: this machine is 9 s ahead")
    faults = [Fault("node-killed", 1, client=client) for client in (3, 4, 5, 6, 8)]
    faults += [Fault("clock-ahead", 1, client=6), Fault("server-disk-full", 2)]
    found = checks.named(stage, [(fault, 10.0) for fault in faults])
    assert [words is not None for _, words in found] == [True, True, False, False, False, True, False]


def test_the_servers_next_fault_waits_until_a_log_names_the_one_before():
    stage = SimpleNamespace(lines=[], round=lambda: (2, 1))
    injector = Injector(stage, [Fault("superlink-killed", 2), Fault("serverapp-killed", 2)], log=lambda _: None)
    injector._superlink_killed = injector._serverapp_killed = lambda _: None
    turns = iter([False, False, True])
    injector.follow(lambda: next(turns))
    assert [fault.kind for fault, _ in injector.done] == ["superlink-killed"]
    stage.lines.append((time.time(), "Connection to the SuperLink is unavailable"))
    turns = iter([False, True])
    injector.follow(lambda: next(turns))
    assert not injector.left


@pytest.mark.parametrize(("kind", "waits"), [("node-killed", True), ("app-killed", False)])
def test_a_run_is_not_ended_before_it_has_named_a_node_that_was_killed(kind, waits):
    stage = SimpleNamespace(lines=[], round=lambda: (2, 1), log=lambda _: "")
    injector = Injector(stage, [Fault(kind, 2, client=3), Fault("rotation", 2)], log=lambda _: None)
    injector._node_killed = injector._app_killed = injector._rotation = lambda _: None
    turns = iter([False, True])
    injector.follow(lambda: next(turns))
    assert [fault.kind for fault in injector.left] == (["rotation"] if waits else [])
    stage.lines.append((time.time(), "client 3 (client_3): not connected"))
    turns = iter([False, True])
    injector.follow(lambda: next(turns))
    assert not injector.left


@pytest.mark.nightly
def test_nine_nodes_survive_every_kind_of_fault(tmp_path):
    soak(tmp_path, nodes=8, shards=2, rounds=9, seed=1, patience=2400.0)
