"""The key set-up of an epoch, before its rounds."""

import pytest

from f2ed.protocol.aggregation import Protocol, key_holders, set_up_keys, shard_means
from tests.protocol.aggregation.test_aggregation import InMemory, assignment_for, plain_means, task_for


def test_a_set_up_before_the_round_saves_its_step_and_costs_the_same():
    asked, prepared = InMemory(12, lazy=False), InMemory(12, lazy=False)
    plan = assignment_for(asked, 3)
    _, whole = shard_means(asked, plan, task_for(asked))
    setup = set_up_keys(prepared, plan, task_for(prepared))
    assert prepared.calls == 3
    assert key_holders(plan, task_for(prepared)) == set(range(12))
    keys = dict(setup.keys)
    means, audit = shard_means(prepared, plan, task_for(prepared), keys=keys)
    assert (asked.calls, prepared.calls) == (4, 4)
    assert means == pytest.approx(plain_means(prepared, plan, range(3)), abs=1e-5)
    assert keys == setup.keys
    assert setup.charged_to(audit) == whole
    assert audit != whole


def test_a_shard_that_fails_in_the_set_up_is_asked_again_in_the_round():
    exchange = InMemory(8, drop=lambda call, client: call == 1 and client == 0)
    plan = assignment_for(exchange, 2)
    setup = set_up_keys(exchange, plan, task_for(exchange))
    failed = plan.shard_of(0)
    assert [members for _, members in setup.keys] == [plan.shards[1 - failed]]
    _, audit = shard_means(exchange, plan, task_for(exchange), keys=dict(setup.keys))
    assert audit.opened == (0, 1)


def test_schemes_without_keys_need_no_set_up():
    exchange = InMemory(8)
    for changes in ({"protocol": Protocol(mode="dropout-tolerant")}, {"secure": False}):
        task = task_for(exchange, **changes)
        assert key_holders(assignment_for(exchange, 2), task) == frozenset()
        setup = set_up_keys(exchange, assignment_for(exchange, 2), task)
        assert (setup.keys, setup.bytes_up, exchange.calls) == ({}, {}, 0)
