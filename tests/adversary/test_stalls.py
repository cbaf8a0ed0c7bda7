"""One client that is silent, slow or hangs costs its own shard its deadline, once; the others go on."""

import pytest

from f2ed import FilterL2
from f2ed.records import read
from tests.flower.fake_grid import model, opened, server

ROUNDS, DEADLINE = 8, 30.0
SLOW = {"deadline": DEADLINE, "train_deadline": DEADLINE, "min_deadline": 0.1, "estimator": FilterL2(contamination=0.2)}


def training(message):
    return "arrays" in message.content


def silent_when_asked_to_train(message, reply):
    return None if training(message) else reply


def silent(message, reply):
    return None if "request" in message.content["f2ed"] else reply


def seconds(leader):
    return sum(each.seconds.exchange for each in leader.records)


@pytest.fixture
def twelve(federation):
    """Return a function that leads rounds of 12 clients in 4 shards, the first of which misbehaves."""
    runs = iter(range(1, 99))

    def lead(tamper, rounds=ROUNDS, **settings):
        grid, nodes, roster = federation(12, 4, run_id=next(runs))
        lead.victim = roster.assignment(0).shards[0][0]
        lead.node = nodes[lead.victim]
        lead.node.tamper = tamper
        leader = server(roster, **SLOW | {"malicious": 0} | settings)
        leader.start(grid, model(), num_rounds=rounds)
        return leader

    return lead


@pytest.mark.parametrize("tamper", [silent, silent_when_asked_to_train])
def test_a_silent_client_costs_the_other_shards_nothing(twelve, tamper):
    """Before, every round cost everyone the whole deadline, in each step."""
    attacked = twelve(tamper)
    assert [opened(attacked, place) for place in range(ROUNDS)] == [[1, 2, 3]] * ROUNDS
    assert seconds(attacked) < DEADLINE
    late = [each.dropped[twelve.victim].startswith("late") for each in attacked.records]
    assert sum(late) <= 4


def test_a_client_that_fails_again_and_again_is_in_quarantine_on_record(twelve, tmp_path, caplog):
    twelve(silent_when_asked_to_train, records=tmp_path / "run.jsonl")
    rounds = read(tmp_path / "run.jsonl").rounds
    first = next(each for each in rounds if each.deployed.quarantined)
    assert first.round == 2
    why = first.deployed.quarantined[twelve.victim]
    assert why.startswith("in quarantine for 2 rounds after 3 faults, the last: round 3: late: no reply within")
    assert rounds[3].dropped == {twelve.victim: why}
    assert f"client {twelve.victim} (client_{twelve.victim}) is in quarantine for 2 rounds" in caplog.text
    asked_again = [each.round for each in rounds if each.dropped[twelve.victim].startswith("late")]
    assert asked_again == [0, 1, 2, 5]


def test_quarantine_changes_nobody_elses_shard(twelve):
    leader = twelve(silent_when_asked_to_train)
    shards = leader.roster.assignment(0).shards
    assert all(leader.roster.assignment(each.deployed.number).shards == shards for each in leader.records)
    assert all(list(each.excluded) == [0] for each in leader.records)


def test_a_client_in_quarantine_is_asked_if_the_round_needs_it(twelve):
    """Otherwise an attacker in one shard could stop a run that needs all of them."""
    calls = []

    def fail_three_times(message, reply):
        if training(message):
            calls.append(message)
            return None if len(calls) <= 3 else reply
        return reply

    leader = twelve(fail_three_times, rounds=2, min_shards=4, max_skipped=5)
    assert [each.skipped is None for each in leader.records] == [False, False, False, True, True]


def test_a_training_that_hangs_costs_one_deadline(twelve):
    """A node answers one message at a time: while it hangs it is asked for nothing else."""
    hangs = []

    def hang(message, reply):
        if training(message):
            hangs.append(message)
        return None if hangs else reply

    leader = twelve(hang)
    assert len(hangs) == 1
    reasons = [each.dropped[twelve.victim] for each in leader.records]
    assert reasons[0].startswith("late: no reply within")
    assert all(each.startswith("silent since: round 1: late") for each in reasons[1:])


def test_a_repaired_node_waits_a_few_rounds_at_most(twelve):
    """Its node hung, took one more message with it, and was restarted under the same id: it says hello."""
    asked = []

    def hang_once(message, reply):
        if training(message) or asked:
            asked.append(message)
        return None if 1 <= len(asked) <= 2 else reply

    leader = twelve(hang_once, rounds=10, deadline=0.2)
    assert opened(leader, 0) == [1, 2, 3]
    assert opened(leader, 9) == [0, 1, 2, 3]


def test_a_late_reply_is_named_and_not_used(federation, caplog):
    grid, nodes, roster = federation(12, 4)
    victim, kept = roster.assignment(0).shards[0][0], []
    pull = grid.pull_messages

    def slow(message, reply):
        if training(message) and not kept:
            kept.append(reply)
            return None
        return reply

    def pull_messages(ids):
        found = list(pull(ids))
        if kept and kept[0] is not None and kept[0].metadata.reply_to_message_id in ids and grid.rounds:
            found.append(kept[0])
            kept[0] = None
        return found

    nodes[victim].tamper, grid.pull_messages, grid.rounds = slow, pull_messages, 0
    leader = server(roster, **SLOW | {"malicious": 0})
    leader.start(grid, model(), num_rounds=3, evaluate_fn=lambda number, _: setattr(grid, "rounds", number))
    assert opened(leader, 0) == [1, 2, 3]
    assert leader.records[1].deployed.late[victim].startswith("its reply in round 1 took")
    assert f"client {victim} (client_{victim}): its reply in round 1 took" in caplog.text
    assert opened(leader, 2) == [0, 1, 2, 3]
