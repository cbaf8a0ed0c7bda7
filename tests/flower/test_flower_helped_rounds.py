"""F2ed under a roster with helpers: means, records, and a named outcome for each party that is late or lies."""

import numpy as np
import pytest
from msgspec.structs import replace

from f2ed import FilterL2
from f2ed.core.errors import ConfigError, OutageError
from f2ed.deployment import helped_step
from f2ed.deployment.roster import helped_terms, write_roster
from f2ed.flower import checkpoint
from f2ed.flower.wire import reply_content, reply_line
from f2ed.protocol.aggregation import ArrayClip, Buffers, FedAdam
from f2ed.protocol.helpers import plain_mean
from f2ed.records import read
from tests.flower.fake_grid import change, model, silence, vector
from tests.flower.helped_nodes import RUN, SIZE, HelpedNodes, lead, strategy

STEP = 2.0**-20
"""One integer step at a clip norm of 1."""


def mean_of(clients, number):
    return np.mean([change(client, number) for client in clients], axis=0)


@pytest.mark.parametrize("budget", [None, 0])
def test_rounds_move_the_model_by_the_mean_of_all_clients(tmp_path, budget):
    it, place = HelpedNodes(tmp_path), vector(model())
    server, arrays = lead(it, 2, memory_budget=budget)
    np.testing.assert_allclose(vector(arrays), place + mean_of(range(6), 1) + mean_of(range(6), 2), atol=3 * STEP)
    assert [each.skipped for each in server.records] == [None, None]
    assert not list(tmp_path.glob("*.rows"))


def test_the_mean_is_that_of_the_clear_to_the_bit(tmp_path, monkeypatch):
    it, rows, true = HelpedNodes(tmp_path), [], helped_step.encoded

    def recorded(update, *, key):
        return lambda terms: rows.append(true(update, key=key)(terms)) or rows[-1]

    monkeypatch.setattr(helped_step, "encoded", recorded)
    _, arrays = lead(it)
    terms = helped_terms(it.roster, it.roster.job(RUN), 0, coordinates=SIZE)
    clear = plain_mean(terms, dict(enumerate(rows)), halves=(bytes(32), bytes(32)), before=None)
    np.testing.assert_array_equal(vector(model()) + clear.mean, vector(arrays))


def test_records_say_who_was_compared_and_who_is_in_the_sum(tmp_path):
    it = HelpedNodes(tmp_path)
    server, _ = lead(it, 2)
    header, rounds = read(tmp_path / "run.jsonl")[:2]
    assert (header.mode, header.crowd, header.estimator.full_kind) == ("helpers", 3, "filter-l2")
    assert header.shards == tuple((client,) for client in range(6))
    assert header.settings["helpers"]["guard"] == "groups"
    assert rounds == tuple(server.records)
    record = rounds[1]
    assert record.weights == (1 / 6,) * 6
    assert (record.crowd, record.excluded, record.rejected, record.dropped) == (6, {}, (), {})
    assert record.leak.crowd == 6
    assert record.bytes_up > 8 * SIZE
    assert record.deployed.relayed.keys() == {"mixer", "judge"}
    assert record.deployed.relayed["mixer"] > 8 * 6 * SIZE


def test_a_silent_client_takes_its_group_out_of_the_sum_and_comes_back(tmp_path):
    it = HelpedNodes(tmp_path)
    gone = it.roster.groups[0].members[0]

    def from_round(finished):
        it.clients[gone].tamper = silence if finished.round == 1 else None

    server, _ = lead(it, 4, on_round=from_round)
    _, second, third, fourth = server.records
    assert second.dropped == {gone: "late: no reply within 0.3 s"}
    assert second.excluded == {gone: "late: no reply within 0.3 s"}
    rejected = set(it.roster.groups[0].members) - {gone}
    assert set(second.rejected) == rejected
    assert second.crowd == 3
    assert 6 in (third.crowd, fourth.crowd)
    assert second.leak.exposed == 0


@pytest.mark.parametrize("role", ["mixer", "judge"])
@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_helper_that_falls_silent_skips_the_round_and_not_the_run(tmp_path, role, step):
    it = HelpedNodes(tmp_path)
    replies, node = [], it.helpers[role]

    def fall_silent(_message, reply):
        replies.append(reply)
        if len(replies) == step + 1:
            return None
        return reply

    node.tamper = fall_silent
    server, arrays = lead(it)
    first, second = server.records
    assert first.skipped.startswith(f"the {role} gave no ")
    assert first.skipped.endswith("(late: no reply within 0.3 s)")
    assert second.skipped is None
    assert len(second.deployed.attempts) == 1
    np.testing.assert_allclose(vector(arrays), vector(model()) + mean_of(range(6), 1), atol=3 * STEP)


@pytest.mark.parametrize("role", ["mixer", "judge"])
@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_helper_whose_bytes_are_altered_is_named(tmp_path, role, step):
    it, count = HelpedNodes(tmp_path), []

    def alter(message, reply):
        count.append(1)
        if len(count) - 1 != step:
            return reply
        return type(reply)(reply_content(b"garbage", reply_line(reply)), reply_to=message)

    it.helpers[role].tamper = alter
    server, _ = lead(it)
    assert role in server.records[0].skipped
    assert server.records[1].skipped is None


@pytest.mark.parametrize("role", ["mixer", "judge"])
def test_a_run_waits_for_helpers_and_says_for_whom(tmp_path, role):
    it = HelpedNodes(tmp_path)
    it.helpers[role].connected = False
    with pytest.raises(OutageError, match=rf"absent: the {role} \(the {role}'s\): not connected"):
        lead(it, max_wait=0.1)


def test_what_a_helper_refuses_is_said(tmp_path):
    it = HelpedNodes(tmp_path)
    (tmp_path / "mixer" / f"mixer-{it.roster.lineage}.helper").unlink()
    with pytest.raises(OutageError, match=r"the mixer .* connected nodes that refused: .* it was lost"):
        lead(it, max_wait=0.1)


def test_a_server_that_is_replaced_continues(tmp_path):
    whole, torn = HelpedNodes(tmp_path / "whole"), HelpedNodes(tmp_path / "torn")
    _, expected = lead(whole, 3, server_optimizer=FedAdam())
    lead(torn, 2, server_optimizer=FedAdam())
    server, arrays = lead(torn, 3, server_optimizer=FedAdam())
    assert len(server.records) == 1
    np.testing.assert_allclose(vector(arrays), vector(expected), atol=1e-3)
    assert [each.round for each in read(tmp_path / "torn" / "run.jsonl").rounds] == [0, 1, 2]


def test_survivors_and_strikes_are_in_the_checkpoint(tmp_path):
    it = HelpedNodes(tmp_path)
    gone = it.roster.groups[0].members[0]
    it.clients[gone].connected = False
    lead(it, wait_for_nodes=0)
    found = checkpoint.load(tmp_path / "run.checkpoint", roster="clinics", like=model())
    assert found.guard == (0, it.roster.groups[1].members, ())


def test_the_log_of_the_server_lists_the_sum_and_agrees_with_the_nodes(tmp_path):
    from f2ed.deployment.transparency import Authors, compare_logs

    it = HelpedNodes(tmp_path)
    lead(it, 2)
    logs = [tmp_path / "run.log", *tmp_path.glob("client_*.state/*.log")]
    assert len(logs) == 7
    found = compare_logs(logs, Authors.of([it.roster]))
    assert found.findings == ()
    assert {each.by: each.count for each in found.files}[-1] == 4  # boot, pinned and two rounds


def test_settings_that_do_not_fit_are_refused(tmp_path):
    it = HelpedNodes(tmp_path)
    for given, wrong in (
        ({"server_key": tmp_path / "client_0.key"}, "not the key of the server's log"),
        ({"server_key": None}, "give its private half as server_key"),
        ({"roster": replace(it.roster, countersignatures=())}, "has not countersigned it"),
        ({"estimator": FilterL2(contamination=0.2)}, "the judge applies the rule of the roster"),
        ({"min_shards": 2}, "helpers in place of shards"),
        ({"min_crowd": 5}, "sums of 3 clients may be opened, fewer than min_crowd = 5"),
        ({"malicious": 3}, "where no estimator helps"),
        ({"checkpoint": None}, "a roster with helpers, and no checkpoint"),
    ):
        with pytest.raises(ConfigError, match=wrong):
            strategy(it, **given)
    strategy(it, estimator=it.roster.helpers.rule)


def test_arrays_with_clips_of_their_own_are_refused_before_the_first_round(tmp_path):
    clips = (ArrayClip("weight", 0.5),)
    it = HelpedNodes(tmp_path, {"buffers": Buffers(policy="keep", clips=clips)})
    write_roster(tmp_path / "roster.json", it.roster)
    with pytest.raises(ConfigError, match="judged together and clipped alike"):
        lead(it)
    assert not it.grid.sent


def test_metrics_count_clients_and_what_helpers_were_sent(tmp_path):
    from f2ed.deployment.metrics import run_samples, watch_records

    it = HelpedNodes(tmp_path)
    gone = it.roster.groups[0].members[0]
    it.clients[gone].connected = False
    lead(it, wait_for_nodes=0)
    found = {
        (each.name, each.labels.get("client"), each.labels.get("helper")): each.value
        for each in run_samples(watch_records(tmp_path / "run.jsonl"))
    }
    assert found["f2ed_clients_compared", None, None] == 5
    assert found["f2ed_crowd", None, None] == 3
    rejected = {client: found["f2ed_client_rejected_total", str(client), None] for client in range(6)}
    assert rejected == {c: int(c in it.roster.groups[0].members and c != gone) for c in range(6)}
    assert found["f2ed_relayed_bytes_total", None, "mixer"] > 0
    assert not [name for name, *_ in found if name.startswith("f2ed_shard")]
