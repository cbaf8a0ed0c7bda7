"""Keys and states of an epoch: agreed on once, never used twice in one round, and no trace of an interruption."""

from typing import ClassVar

import msgspec
import pytest
import torch

from f2ed.protocol.secagg.messages import AskChains, AskKey, AskUpload, AskWraps, Refused
from f2ed.protocol.secagg.schemes import read_request
from f2ed.simulation import Simulation, experiment
from f2ed.simulation import opened_rows as rows_module
from f2ed.simulation.checkpoint import pack, unpack
from f2ed.simulation.transport import MemoryExchange

SMALL = {
    "data": {"kind": "synthetic", "train": 120, "test": 20, "side": 4},
    "model": {"kind": "mlp", "hidden": [4]},
    "clients": 12,
    "shards": 4,
    "rounds": 5,
}


class Watched(MemoryExchange):
    """A round that remembers what it was asked."""

    asked: ClassVar[list] = []

    def __call__(self, requests):
        self.asked.append(dict(requests))
        return super().__call__(requests)


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setattr(Watched, "asked", [])
    monkeypatch.setattr(rows_module, "MemoryExchange", Watched)
    return Watched.asked


def make(**changes):
    return Simulation(experiment(SMALL | changes), workers=1)


def without_timings(record):
    """What a record says, timings aside."""
    return msgspec.structs.replace(record, seconds=type(record.seconds)())


def kinds(asked):
    return [{type(read_request(request)) for request in requests.values()} for requests in asked]


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        ("fixed", [AskKey, AskWraps, AskChains, *[AskUpload] * 5]),
        (
            {"kind": "every-k-rounds", "k": 2},
            [AskKey, AskWraps, AskChains, AskUpload, AskUpload] * 2 + [AskKey, AskWraps, AskChains, AskUpload],
        ),
        ("every-round", [AskKey, AskWraps, AskChains, AskUpload] * 5),
    ],
)
def test_members_agree_on_keys_once_per_epoch_and_then_every_round_is_one_exchange(watched, schedule, wanted):
    list(make(schedule=schedule).rounds())
    assert kinds(watched) == [{kind} for kind in wanted]


def test_a_dropout_triggers_no_new_key_agreement(watched):
    records = [record for _, record in make(client_dropout=0.15).rounds()]
    assert any(record.excluded for record in records)
    assert kinds(watched) == [{AskKey}, {AskWraps}, {AskChains}, *[{AskUpload}] * 5]


def test_shards_without_epoch_keys_have_no_set_up(watched):
    simulation = make(secure=False, rounds=1)
    list(simulation.rounds())
    assert kinds(watched)[-1] == {AskUpload}
    assert not any(watched[:-1])


def test_the_set_up_is_on_record_in_the_first_round_of_an_epoch_and_in_no_other():
    records = [record for _, record in make(schedule={"kind": "every-k-rounds", "k": 2}).rounds()]
    sent = [record.bytes_up for record in records]
    assert sent[0] == sent[2] == sent[4] > sent[1] == sent[3]
    received = [record.bytes_down for record in records]
    assert received[0] == received[2] == received[4] > received[1] == received[3]


@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
@pytest.mark.parametrize("schedule", ["fixed", {"kind": "every-k-rounds", "k": 2}])
def test_a_run_taken_up_in_any_round_has_the_records_of_one_that_was_not_interrupted(mode, schedule):
    changes = {"protocol": {"mode": mode}, "schedule": schedule, "client_dropout": 0.1}
    whole = make(**changes)
    states, records = zip(*whole.rounds(), strict=True)
    for at in range(4):
        other = make(**changes)
        resumed = other.rounds(unpack(pack(states[at], whole.digest), other.digest, other.device))
        assert [without_timings(record) for _, record in resumed] == [
            without_timings(record) for record in records[at + 1 :]
        ]


def test_rounds_may_come_again_in_any_order_and_say_the_same():
    simulation = make(schedule={"kind": "every-k-rounds", "k": 2})
    states = [simulation.start()]
    records = []
    for state, record in simulation.rounds():
        states.append(state)
        records.append(without_timings(record))
    for at in (3, 3, 0, 4, 1, 2):
        assert without_timings(simulation.step(states[at])[1]) == records[at]


def test_a_round_that_comes_again_comes_under_new_keys(watched):
    simulation = make()
    start = simulation.start()
    simulation.step(start)
    simulation.step(start)
    assert kinds(watched) == [{AskKey}, {AskWraps}, {AskChains}, {AskUpload}] * 2
    first, again = (read_request(asked[0]).keys for asked in (watched[1], watched[5]))
    assert not {each.key for each in first} & {each.key for each in again}


def test_members_refuse_an_upload_that_was_asked_for_before(watched):
    simulation = make()
    state, _ = simulation.step(simulation.start())
    clients = simulation._open._clients
    again = MemoryExchange(
        clients, torch.zeros(12, len(state.model)).numpy(), range(12), model=bytes(32), seed=0, round_=0
    )
    replies = [msgspec.msgpack.decode(reply) for _, reply in again(watched[3])]
    assert len(replies) == 12
    for reply in replies:
        assert reply[0] == Refused.__struct_config__.tag
        assert "never begun twice" in reply[1]


def test_an_interrupted_set_up_starts_over(monkeypatch):
    simulation = make()
    start = simulation.start()
    state, _ = simulation.step(start)
    _, wanted = simulation.step(state)
    monkeypatch.setattr(rows_module, "set_up_keys", interrupted)
    with pytest.raises(KeyboardInterrupt):
        simulation.step(start)
    monkeypatch.undo()
    _, record = simulation.step(state)
    assert record.excluded == {}
    assert without_timings(record) == without_timings(wanted)


def interrupted(*_):
    raise KeyboardInterrupt


def test_masked_equals_plain_where_the_protocol_asks_for_more_survivors():
    changes = {
        "clients": 24,
        "client_dropout": 0.2,
        "protocol": {"mode": "dropout-tolerant", "min_crowd": 6, "colluders": 1},
        "estimator": "mean",
    }
    masked, plain = (
        [without_timings(r) for _, r in make(**changes, secure=secure).rounds()] for secure in (True, False)
    )
    assert any(record.excluded for record in masked)
    assert [record.excluded for record in masked] == [record.excluded for record in plain]
    assert [record.loss for record in masked] == [record.loss for record in plain]
