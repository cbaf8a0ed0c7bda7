"""A node's own budget: whatever the server says, it sends nothing that the budget does not cover."""

from contextlib import suppress

import msgspec
import pytest

from f2ed import Mean
from f2ed.core.errors import ConfigError, OutageError, Refusal
from f2ed.deployment.roster import SignedEncoding
from f2ed.flower import F2ed
from f2ed.flower.wire import reply_bytes
from f2ed.protocol.dp import dp_epsilon
from f2ed.protocol.dp.budget import Budget
from tests.flower.fake_grid import FakeGrid, Node, model, opened, real_roster, user_app

DELTA = 1e-4
ROUND = 1 / 8
"""The rho of a round with noise of 2."""
TWO_ROUNDS = dp_epsilon(2 * ROUND, DELTA) * 1.001


@pytest.fixture
def budget(tmp_path):
    return Budget(tmp_path / "spent.json", TWO_ROUNDS, DELTA)


@pytest.fixture
def federation(tmp_path):
    """Return a function that makes a grid of six nodes in two shards, with some more settings for each."""

    def make(run_id=7, *, more=None, mode="auto", noise=2.0, **app):
        if not (tmp_path / "roster.json").exists():
            draft = {"encoding": SignedEncoding(clip_norm=0.1), "noise_multiplier": noise}
            make.made = real_roster(tmp_path, 6, shards=2, min_crowd=3, mode=mode, fields=draft)
        roster, settings = make.made
        given = {"f2ed-dp-epsilon": TWO_ROUNDS, "f2ed-delta": DELTA} if more is None else more
        nodes = [Node(client, user_app(**app), settings[client] | given) for client in range(6)]
        return FakeGrid(nodes, run_id), nodes, roster

    return make


def served(grid, roster, rounds, **settings):
    """Run so many rounds, up to one that is skipped; return how many shards opened in each, and the records."""
    quick = {"deadline": 0.2, "train_deadline": 0.2, "max_skipped": 1}
    given = {"estimator": Mean(), "min_crowd": 3, "delta": DELTA} | quick | settings
    leader = F2ed(roster=roster, **given)
    with suppress(OutageError):
        leader.start(grid, model(), num_rounds=rounds)
    return [len(opened(leader, place)) for place in range(rounds)], leader.records


def spent(tmp_path):
    return [msgspec.json.decode(path.read_bytes())["rho"] for path in sorted(tmp_path.glob("*.spent.json"))]


def test_costs_add_up_over_restarts_until_the_budget_is_spent(budget):
    assert budget.pay(ROUND) == pytest.approx(dp_epsilon(ROUND, DELTA))
    again = Budget(budget.path, budget.dp_epsilon, budget.delta)
    again.check(ROUND)
    assert again.pay(ROUND) == pytest.approx(dp_epsilon(2 * ROUND, DELTA))
    before = budget.path.read_bytes()
    for refused in (again.check, again.pay):
        with pytest.raises(Refusal, match="its budget is"):
            refused(ROUND)
    assert budget.path.read_bytes() == before


def test_to_check_costs_nothing(budget):
    budget.check(ROUND)
    assert not budget.path.exists()


def test_what_has_no_bound_is_refused(budget):
    for refused in (budget.check, budget.pay):
        with pytest.raises(Refusal, match="state no noise"):
            refused(None)
    assert not budget.path.exists()


@pytest.mark.parametrize("content", [b"", b"{}", b'{"rho": "much"}', b'{"rho": -1}', b'{"rho": 0.1'])
def test_a_damaged_ledger_is_refused_and_left_alone(budget, content):
    budget.path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"spent\.json cannot be read"):
        budget.pay(ROUND)
    assert budget.path.read_bytes() == content


def test_a_ledger_that_cannot_be_kept_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="f2ed-ledger"):
        Budget(tmp_path / "file" / "spent.json", 8.0, DELTA).pay(ROUND)


def test_only_the_node_may_read_its_ledger(budget):
    budget.pay(ROUND)
    assert budget.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
def test_nodes_stop_when_their_budgets_are_spent_and_train_no_more(federation, mode):
    seen = []
    grid, _, roster = federation(mode=mode, seen=seen)
    shards, records = served(grid, roster, 3, mode=mode)
    assert shards == [2, 2, 0]
    assert {round_ for _, round_, _ in seen} == {1, 2}
    assert "its budget is" in next(iter(records[-1].dropped.values()))


def test_another_run_begins_with_what_the_first_left(federation):
    grid, _, roster = federation(run_id=1)
    assert served(grid, roster, 1)[0] == [2]
    grid, _, roster = federation(run_id=2)
    assert served(grid, roster, 2)[0] == [2, 0]


def test_a_node_counts_what_the_server_counts_where_all_are_there(federation, tmp_path):
    grid, _, roster = federation()
    _, (record,) = served(grid, roster, 1)
    assert [dp_epsilon(rho, DELTA) for rho in spent(tmp_path)] == pytest.approx([record.dp_epsilon] * 6)


def test_the_price_is_written_down_before_the_update_leaves(federation, tmp_path):
    grid, nodes, roster = federation()
    written = []

    def tamper(_message, reply):
        if b"upload" in reply_bytes(reply)[:40]:
            written.append((tmp_path / "client_3.spent.json").exists())
        return reply

    nodes[3].tamper = tamper
    served(grid, roster, 1)
    assert written == [True]


def test_training_that_fails_costs_as_much_as_training_that_succeeds(federation, tmp_path):
    def fault(_message, context):
        if context.node_config["partition-id"] == 2:
            raise RuntimeError("no memory")

    grid, _, roster = federation(fault=fault)
    served(grid, roster, 1, min_shards=1)
    assert spent(tmp_path) == pytest.approx([ROUND] * 6)


def test_without_noise_a_node_with_a_budget_sends_nothing(federation, tmp_path):
    seen = []
    grid, _, roster = federation(seen=seen, noise=0.0)
    _, (record,) = served(grid, roster, 1)
    assert "state no noise" in next(iter(record.dropped.values()))
    assert not seen
    assert not spent(tmp_path)


def test_a_ledger_may_lie_elsewhere(federation, tmp_path):
    ledger = tmp_path / "kept" / "ours.json"
    grid, _, roster = federation(more={"f2ed-dp-epsilon": 100.0, "f2ed-ledger": str(ledger)})
    served(grid, roster, 1)
    # All six share it here, and each adds its own.
    assert msgspec.json.decode(ledger.read_bytes())["rho"] == pytest.approx(6 * ROUND)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"f2ed-dp-epsilon": "much"}, "f2ed-dp-epsilon is 'much'"),
        ({"f2ed-dp-epsilon": -1.0}, "f2ed-dp-epsilon is -1.0"),
        ({"f2ed-dp-epsilon": 8.0, "f2ed-delta": 1.0}, "f2ed-delta is 1.0"),
        ({"f2ed-delta": 1e-5}, "f2ed-delta is in the --node-config without f2ed-dp-epsilon"),
        ({"f2ed-ledger": "spent.json"}, "f2ed-ledger is in the --node-config without f2ed-dp-epsilon"),
        ({"f2ed-dp-epsilon": 8.0, "f2ed-delta": 0.0}, "a delta of 0"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(federation, caplog, more, why):
    grid, nodes, roster = federation(more={})
    nodes[0].node_config |= more
    assert served(grid, roster, 1, min_shards=1)[0] == [1]
    assert why in caplog.text
