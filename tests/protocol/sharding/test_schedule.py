import msgspec
import pytest

from f2ed.core.errors import ConfigError, Refusal
from f2ed.protocol.sharding import Batches, EveryKRounds, EveryRound, Fixed, Schedule, assign_shards


@pytest.mark.parametrize(
    ("schedule", "epochs"),
    [
        (Fixed(), [0, 0, 0, 0, 0, 0, 0]),
        (EveryKRounds(k=3), [0, 0, 0, 1, 1, 1, 2]),
        (EveryRound(), [0, 1, 2, 3, 4, 5, 6]),
        (Batches(2), [0, 1, 2, 3, 4, 5, 6]),
        (Batches(2, k=3), [0, 0, 0, 1, 1, 1, 2]),
    ],
)
def test_a_schedule_says_which_epoch_a_round_belongs_to(schedule, epochs):
    assert [schedule(number) for number in range(7)] == epochs


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ('{"type": "fixed"}', Fixed()),
        ('{"type": "every-k-rounds", "k": 10}', EveryKRounds(k=10)),
        ('{"type": "every-round"}', EveryRound()),
        ('{"type": "batches", "size": 4}', Batches(4)),
    ],
)
def test_a_schedule_is_named_in_settings(text, schedule):
    assert msgspec.json.decode(text, type=Schedule) == schedule


@pytest.mark.parametrize(
    "text",
    ['{"type": "every-k-rounds", "k": 0}', '{"type": "fixed", "k": 3}', '{"type": "never"}', '{"type": "batches"}'],
)
def test_a_schedule_that_makes_no_sense_is_refused(text):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Schedule)


ROSTER = {client: bytes([client]) for client in range(24)}
TERMS = {"shards": 3, "epoch": 4, "seed": b"public"}


@pytest.mark.parametrize("schedule", [Fixed(), EveryKRounds(k=2), EveryRound()])
def test_schedules_of_single_clients_assign_as_assign_shards_does(schedule):
    assert schedule.assign(ROSTER, **TERMS) == assign_shards(ROSTER, **TERMS)
    assert schedule.min_shard_size(26, 4) == 6


def test_a_client_verifies_batches_by_the_schedule_it_knows():
    sent = Batches(4).assign(ROSTER, **TERMS)
    sent.verify(ROSTER, **TERMS, min_size=8, assign=Batches(4).assign)


@pytest.mark.parametrize("assign", [None, Batches(2).assign, Fixed().assign])
def test_an_assignment_of_batches_is_refused_by_a_client_that_knows_another_schedule(assign):
    with pytest.raises(Refusal, match="is not the one that the roster, the epoch and the seed give"):
        Batches(4).assign(ROSTER, **TERMS).verify(ROSTER, **TERMS, assign=assign)


def test_a_plain_assignment_is_refused_by_a_client_that_stays_in_its_batch():
    with pytest.raises(Refusal, match="somebody chose its members"):
        assign_shards(ROSTER, **TERMS).verify(ROSTER, **TERMS, assign=Batches(4).assign)


@pytest.mark.parametrize(("clients", "size", "shards", "smallest"), [(100, 2, 25, 4), (100, 3, 25, 3), (26, 4, 3, 8)])
def test_no_shard_of_batches_has_fewer_members_than_said(clients, size, shards, smallest):
    schedule, roster = Batches(size), dict.fromkeys(range(clients), b"")
    assignments = [schedule.assign(roster, shards=shards, epoch=epoch, seed=b"") for epoch in range(20)]
    assert schedule.min_shard_size(clients, shards) == smallest
    assert min(len(shard) for assignment in assignments for shard in assignment.shards) == smallest


def test_batches_that_leave_a_shard_too_small_are_refused():
    with pytest.raises(ConfigError, match="a shard of 3 members, fewer than 4; use fewer shards"):
        Batches(3).assign(dict.fromkeys(range(100), b""), shards=25, epoch=0, seed=b"", min_size=4)
