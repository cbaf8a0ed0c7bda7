"""One follower for the simulation and the deployment: ids of any size, exact over restarts."""

from f2ed.guarantees import LeakFollower, LeakMeter, Unopened
from f2ed.protocol.sharding import EveryRound, assign_shards

IDS = [7 * 2**50 + 3 * i for i in range(12)]
ROSTER = dict.fromkeys(IDS, b"")


def assignment(round_):
    return assign_shards(ROSTER, shards=3, epoch=EveryRound()(round_), seed=b"x")


def unopened(round_):
    """The first shard stays closed, and the first member of the second drops out."""
    members = assignment(round_).shards
    return Unopened.of(assignment(round_), {1: members[1][1:], 2: members[2]})


def test_what_was_opened_follows_from_what_was_not():
    members = assignment(0).shards
    assert unopened(0) == Unopened(closed=(0,), dropped=members[1][:1])
    assert unopened(0).sums(assignment(0)) == [members[1][1:], members[2]]
    assert Unopened().sums(assignment(0)) == list(members)


def test_it_reads_what_a_meter_of_the_same_sums_reads():
    follower, meter = LeakFollower(assignment, IDS), LeakMeter(12)
    past = ()
    for round_ in range(6):
        past = (*past, unopened(round_))
        meter.observe([[IDS.index(client) for client in some] for some in unopened(round_).sums(assignment(round_))])
        reading = follower(past)
        assert (reading.rank, reading.exposed, reading.first, reading.crowd) == (
            meter.rank,
            meter.exposed,
            meter.first,
            meter.crowd,
        )
    assert reading.exposed > 0


def test_a_new_follower_takes_in_the_rounds_before_it():
    past = tuple(unopened(round_) for round_ in range(4))
    first = LeakFollower(assignment, IDS)
    for count in range(1, 5):
        through = first(past[:count])
    assert LeakFollower(assignment, IDS)(past) == through


def test_another_history_is_taken_in_from_its_start():
    follower = LeakFollower(assignment, IDS)
    follower((Unopened(), Unopened()))
    assert follower((Unopened(closed=(0, 1)),)).rank == 1
