"""Nodes that are away: the job waits for them and loses no round, or fails in the set time."""

import importlib
import json
import re
import time

import pytest
from flwr.app import Error, Message
from flwr.common.constant import ErrorCode

from f2ed import ConfigError, OutageError
from f2ed.deployment.run_lock import read_state
from f2ed.flower import attendance, node_registry, transport
from f2ed.records import read
from tests.flower.fake_grid import model, opened, server


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self, at=None):
        self.now = 0.0
        self.at = at or {}
        """What happens when so many seconds have passed."""

    def monotonic(self):
        return self.now

    time = staticmethod(time.time)

    def sleep(self, seconds):
        self.now += seconds
        for when in [when for when in self.at if when <= self.now]:
            self.at.pop(when)()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(attendance, "time", clock)
    return clock


def connect(nodes, *, connected):
    for node in nodes:
        node.connected = connected


def test_all_nodes_away_for_a_minute_in_round_3_of_50_cost_no_round(federation, tmp_path, clock, caplog):
    grid, nodes, roster = federation()

    noted = []

    def fail(number, _):
        if number == 2:
            connect(nodes, connected=False)
            clock.at = {
                clock.now + 30: lambda: noted.append(read_state(tmp_path / "run.jsonl")),
                clock.now + 60: lambda: connect(nodes, connected=True),
            }

    leader = server(roster, max_wait=600, records=tmp_path / "run.jsonl", checkpoint=tmp_path / "run.checkpoint")
    leader.start(grid, model(), num_rounds=50, evaluate_fn=fail)
    rounds = read(tmp_path / "run.jsonl").rounds
    assert [(each.round, each.deployed.number, each.skipped, each.dropped) for each in rounds] == [
        (number, number, None, {}) for number in range(50)
    ]
    said = [each.getMessage() for each in caplog.records if "waiting for" in each.getMessage()]
    assert len(said) in {5, 6}
    assert (
        "waiting for 10 s: 0 of 2 shards can open, 1 are needed; absent: client 0 (client_0): not connected" in said[0]
    )
    assert "an expired certificate, a wrong clock or a firewall" in said[0]
    ((state, held),) = noted
    assert (state.round, held, state.waiting.startswith("0 of 2 shards can open")) == (3, True, True)
    assert read_state(tmp_path / "run.jsonl")[0].waiting == ""


def test_it_says_every_10_s_what_it_waits_for_though_a_node_never_says_who_it_is(
    federation, clock, caplog, monkeypatch
):
    grid, nodes, roster = federation()
    monkeypatch.setattr(node_registry, "time", clock)
    nodes[0].tamper = lambda *_: None
    server(roster, deadline=60, min_deadline=60, wait_for_nodes=90).start(grid, model(), num_rounds=1)
    said = [each.getMessage() for each in caplog.records if "waiting for" in each.getMessage()]
    waited = [int(re.search(r"waiting for (\d+) s", each)[1]) for each in said]
    assert waited[:5] == pytest.approx([10, 20, 30, 40, 50], abs=3)
    assert "client 0 (client_0): not connected" in said[0]


def test_nodes_gone_for_good_end_the_run_in_the_set_time_and_a_rerun_continues(federation, tmp_path, clock):
    grid, nodes, roster = federation(run_id=1)
    leader = server(roster, max_wait=600, checkpoint=tmp_path / "run.checkpoint", records=tmp_path / "run.jsonl")
    gone = lambda number, _: connect(nodes, connected=number < 2)  # noqa: E731
    with pytest.raises(
        OutageError, match=r"too few clients for 600 s: 0 of 2 shards can open.*continues after round 2"
    ):
        leader.start(grid, model(), num_rounds=50, evaluate_fn=gone)
    assert 600 <= clock.now < 610
    grid, nodes, roster = federation(run_id=2)
    server(roster, checkpoint=tmp_path / "run.checkpoint", records=tmp_path / "run.jsonl").start(grid, model(), 4)
    assert [each.round for each in read(tmp_path / "run.jsonl").rounds] == [0, 1, 2, 3]


def test_the_run_goes_on_with_as_many_shards_as_it_needs(federation, clock):
    grid, nodes, roster = federation()
    nodes[roster.assignment(0).shards[0][0]].connected = False
    leader = server(roster, wait_for_nodes=30, min_shards=1)
    leader.start(grid, model(), num_rounds=2)
    assert [opened(leader, place) for place in (0, 1)] == [[1], [1]]
    assert 30 <= clock.now < 31


def test_skipped_attempts_are_not_counted_and_named_in_the_record(federation, tmp_path):
    grid, nodes, roster = federation()
    victim, asked = nodes[roster.assignment(0).shards[0][0]], []

    def refuse_twice(message, reply):
        if "arrays" in message.content:
            asked.append(message)
            return None if len(asked) in {2, 3} else reply
        return reply

    victim.tamper = refuse_twice
    leader = server(roster, min_shards=2, max_skipped=3, records=tmp_path / "run.jsonl", checkpoint=tmp_path / "c")
    leader.start(grid, model(), num_rounds=3)
    rounds = read(tmp_path / "run.jsonl").rounds
    assert [(each.round, each.deployed.number, len(each.deployed.attempts)) for each in rounds] == [
        (0, 0, 0),
        (1, 3, 2),
        (2, 4, 0),
    ]
    assert "number 1, ended" in rounds[1].deployed.attempts[0]
    assert "1 rows opened, at least 2 are required" in rounds[1].deployed.attempts[1]
    assert [each.skipped is None for each in leader.records] == [True, False, False, True, True]


def test_attempts_before_a_restart_are_in_the_record_too(federation, tmp_path):
    path = {"checkpoint": tmp_path / "c", "records": tmp_path / "run.jsonl"}
    grid, nodes, roster = federation(run_id=1)
    nodes[0].tamper = lambda message, reply: None if "arrays" in message.content else reply
    with pytest.raises(OutageError, match="round 1 was skipped 1 times"):
        server(roster, min_shards=2, **path).start(grid, model(), num_rounds=1)
    grid, nodes, roster = federation(run_id=2)
    server(roster, min_shards=2, **path).start(grid, model(), num_rounds=1)
    (record,) = read(tmp_path / "run.jsonl").rounds
    assert (record.round, record.deployed.number, len(record.deployed.attempts)) == (0, 1, 1)


def test_a_second_run_with_the_same_checkpoint_is_told_the_round_of_the_first(federation, tmp_path):
    files = {"checkpoint": tmp_path / "run.checkpoint", "records": tmp_path / "run.jsonl"}
    refused = []

    def second(number, _):
        if number == 2:
            grid, _, roster = federation(run_id=8)
            with pytest.raises(ConfigError) as error:
                server(roster, **files).start(grid, model(), num_rounds=4)
            refused.append(str(error.value))

    grid, _, roster = federation(run_id=7)
    leader = server(roster, **files)
    leader.start(grid, model(), num_rounds=4, evaluate_fn=second)
    assert "the run 7 is using the checkpoint or the records beside" in refused[0]
    assert "is in round 2" in refused[0]
    assert [each.round for each in leader.records] == [0, 1, 2, 3]


def test_a_second_run_elsewhere_is_noticed_and_its_round_named(federation):
    def second(number, _):
        if number == 1:
            grid, _, roster = federation(run_id=8)
            server(roster).start(grid, model(), num_rounds=3)

    grid, _, roster = federation(run_id=7)
    with pytest.raises(
        ConfigError,
        match="another run of 'clinics' is under way: 6 clients have answered its round 3, and this run has led rounds "
        "up to 1",
    ):
        server(roster, max_skipped=5).start(grid, model(), num_rounds=6, evaluate_fn=second)


def test_one_client_that_claims_later_rounds_ends_no_run(federation, tmp_path):
    grid, _, roster = federation()
    leader = server(roster)

    def lie(number, _):
        if number == 1:
            (path,) = (tmp_path / "client_0.state").glob("*.rounds")
            path.write_bytes(b'{"round":40}')

    leader.start(grid, model(), num_rounds=4, evaluate_fn=lie)
    assert [len(opened(leader, place)) for place in range(4)] == [2, 1, 1, 1]


def test_numbers_that_earlier_runs_used_are_on_record(federation):
    grid, _, roster = federation(run_id=1)
    server(roster).start(grid, model(), num_rounds=3)
    grid, _, roster = federation(run_id=2)
    leader = server(roster)
    leader.start(grid, model(), num_rounds=2)
    assert [(each.deployed.number, each.deployed.unled) for each in leader.records] == [(3, (0, 2)), (4, None)]


def test_deadlines_that_change_between_two_rounds_count_from_the_next(federation, monkeypatch):
    grid, _, roster = federation()
    seen, exchange = [], transport.RoundExchange.__init__

    def watched(self, *args, **settings):
        seen.append(settings["deadlines"].train)
        exchange(self, *args, **settings)

    monkeypatch.setattr(transport.RoundExchange, "__init__", watched)
    leader = server(roster, on_round=lambda _: setattr(leader._run, "deadlines", transport.Deadlines(60.0, 7.0)))
    leader.start(grid, model(), num_rounds=2)
    assert seen[-1] == 7.0 != seen[0]


@pytest.mark.parametrize("what", ["checkpoint", "records"])
def test_files_that_cannot_be_written_are_refused_before_anybody_trains(federation, tmp_path, what):
    (tmp_path / "file").touch()
    seen = []
    grid, _, roster = federation(seen=seen)
    with pytest.raises(ConfigError, match=r"cannot be created: .*; name another"):
        server(roster, **{what: tmp_path / "file" / "run"}).start(grid, model(), num_rounds=1)
    assert not grid.sent


def test_records_that_cannot_be_written_are_refused_before_anybody_trains(federation, tmp_path):
    (tmp_path / "run.jsonl").mkdir()
    grid, _, roster = federation()
    with pytest.raises(ConfigError, match=r"run\.jsonl is a folder; name a file"):
        server(roster, records=tmp_path / "run.jsonl").start(grid, model(), num_rounds=1)
    assert not grid.sent


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (
            "f2ed.core.files.write_atomic",
            r"the checkpoint .*run\.checkpoint cannot be written: No space left on device",
        ),
        ("f2ed.deployment.record_file.append", r"the records .*run\.jsonl cannot be written: No space left on device"),
    ],
)
def test_a_disk_that_fills_up_is_named_and_no_round_is_lost(federation, tmp_path, monkeypatch, place, words):
    files = {"checkpoint": tmp_path / "run.checkpoint", "records": tmp_path / "run.jsonl"}
    module, _, name = place.rpartition(".")
    whole = getattr(importlib.import_module(module), name)
    written = []

    def full(path, *args, **settings):
        written.append(path)
        if path in files.values() and written.count(path) > 2:
            raise OSError(28, "No space left on device")
        return whole(path, *args, **settings)

    monkeypatch.setattr(place, full)
    grid, _, roster = federation(run_id=1)
    with pytest.raises(ConfigError, match=words):
        server(roster, **files).start(grid, model(), num_rounds=4)
    monkeypatch.setattr(place, whole)
    grid, _, roster = federation(run_id=2)
    server(roster, **files).start(grid, model(), num_rounds=4)
    assert [each.round for each in read(files["records"]).rounds] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.NODE_UNAVAILABLE, "its node stopped answering: it ended, hangs or lost its connection"),
        (ErrorCode.CLIENT_APP_CRASHED, "the process of the app crashed or was killed on its node"),
        (ErrorCode.LOAD_CLIENT_APP_EXCEPTION, "an error instead of a reply: Flower's words"),
    ],
)
def test_what_flower_reports_by_a_number_is_said_in_words(federation, code, words):
    grid, nodes, roster = federation()
    victim = roster.assignment(0).shards[0][0]

    def failed(message, reply):
        return Message(Error(code, "Flower's words"), reply_to=message) if "arrays" in message.content else reply

    nodes[victim].tamper = failed
    leader = server(roster)
    leader.start(grid, model(), num_rounds=1)
    assert words in leader.records[0].dropped[victim]


def test_a_node_with_another_roster_is_recorded_with_that_reason(federation, tmp_path):
    grid, nodes, roster = federation()
    victim = roster.assignment(0).shards[0][0]
    other = tmp_path / "other"
    other.mkdir()
    changed = json.loads((tmp_path / "roster.json").read_bytes()) | {"serial": 2}
    (other / "roster.json").write_text(json.dumps(changed))
    nodes[victim].node_config["f2ed-roster"] = str(other / "roster.json")
    leader = server(roster)
    leader.start(grid, model(), num_rounds=1)
    why = leader.records[0].dropped[victim]
    assert "or it is one of 1 connected nodes that refused: " in why


def test_what_clients_are_sent_includes_the_model(federation):
    grid, _, roster = federation()
    leader = server(roster)
    leader.start(grid, model(), num_rounds=2)
    sent = [message.content for message in grid.sent if message.metadata.group_id == "2"]
    size = sum(len(array.data) for array in model().values())
    assert [sum(len(array.data) for array in each["arrays"].values()) for each in sent] == [size] * 6
    assert leader.records[1].bytes_down == round(sum(len(each["f2ed"]["request"]) + size for each in sent) / 6)


def test_the_names_of_the_clients_are_in_the_records(federation, tmp_path):
    grid, _, roster = federation()
    server(roster, records=tmp_path / "run.jsonl").start(grid, model(), num_rounds=1)
    assert read(tmp_path / "run.jsonl").header.names == {client: f"client_{client}" for client in range(6)}


@pytest.mark.parametrize(("off", "words"), [(7200, "ahead of"), (-7200, "behind")])
def test_a_clock_that_is_off_is_named(federation, caplog, off, words):
    grid, nodes, roster = federation()

    def wrong(_message, reply):
        reply.metadata.__dict__["_created_at"] = reply.metadata.created_at + off
        return reply

    nodes[2].tamper = wrong
    server(roster).start(grid, model(), num_rounds=1)
    # On a busy machine some seconds pass until the answer.
    assert re.search(rf"the clock of client 2 \(client_2\) is 7[12]\d\d s {words} the server's", caplog.text)
    assert caplog.text.count("the clock of") <= 2
