"""Deadlines that follow what most clients need, and that a few cannot move."""

from math import inf

import pytest

from f2ed.deployment.pace import Pace

HONEST = {client: 1.0 + client / 10 for client in range(10)}
"""The slowest needs 1.9 s."""


def lead(pace, times, *, factor=4.0, least=0.0, most=100.0):
    """Lead a round in which a client takes as long as its time, or as a function of the deadline; return that."""
    pace.begin_round()
    pace.ask("train", times)
    deadline = pace.deadline("train", factor=factor, least=least, most=most)
    for client, time in times.items():
        taken = time(deadline) if callable(time) else time
        pace.observe("train", client, min(taken, deadline))
    return deadline


def test_before_anything_is_known_the_upper_bound_holds():
    assert Pace().deadline("train", factor=4, least=1, most=60) == 60
    assert lead(Pace(), HONEST) == 100


def test_the_deadline_is_a_multiple_of_what_most_clients_need():
    pace = Pace(malicious=1)
    lead(pace, HONEST)
    assert pace.usual("train") == 1.8
    assert lead(pace, HONEST) == pytest.approx(7.2)


def test_it_stays_between_its_bounds():
    pace = Pace()
    lead(pace, HONEST)
    assert pace.deadline("train", factor=4, least=30, most=60) == 30
    assert pace.deadline("train", factor=4, least=1, most=5) == 5


@pytest.mark.parametrize("malicious", [1, 2, 3])
def test_clients_that_always_answer_just_in_time_cannot_stretch_it(malicious):
    """For 200 rounds they take all the time that they are given; nobody else's deadline moves."""
    pace = Pace(malicious=malicious)
    times = HONEST | {100 + each: lambda deadline: deadline - 1e-3 for each in range(malicious)}
    deadlines = [lead(pace, times) for _ in range(200)]
    assert max(deadlines[1:]) <= 4 * max(HONEST.values())


def test_one_more_than_assumed_would_stretch_it():
    """So the test above can fail."""
    pace = Pace(malicious=1)
    times = HONEST | {100 + each: lambda deadline: deadline - 1e-3 for each in range(2)}
    assert [lead(pace, times) for _ in range(20)][-1] == 100


@pytest.mark.parametrize("malicious", [1, 2, 3])
def test_clients_that_answer_at_once_cannot_cut_the_others_off(malicious):
    pace = Pace(malicious=malicious)
    times = HONEST | {100 + each: 0.0 for each in range(malicious)}
    deadlines = [lead(pace, times) for _ in range(50)]
    assert min(deadlines) > max(HONEST.values())


def test_attackers_alone_in_a_step_set_no_deadline():
    pace = Pace(malicious=2)
    pace.begin_round()
    pace.ask("train", range(4))
    for attacker in (0, 1):
        pace.observe("train", attacker, 0.0)
    assert pace.usual("train") == inf


def test_if_many_become_slow_the_deadline_grows_until_they_are_heard():
    pace = Pace(malicious=1)
    for _ in range(5):
        lead(pace, HONEST)
    slow = dict.fromkeys(HONEST, 40.0)
    deadlines = [lead(pace, slow) for _ in range(4)]
    assert deadlines[0] < 40 < deadlines[-1]


def test_clients_that_are_gone_or_left_out_no_longer_count():
    pace = Pace()
    pace.begin_round()
    pace.ask("train", [*HONEST, 100, 101])
    for client, time in HONEST.items():
        pace.observe("train", client, time)
    assert pace.usual("train") == inf
    pace.forget(100)
    assert pace.usual("train") < inf
    for _ in range(6):
        lead(pace, HONEST)
    assert pace.usual("train") == 1.8


def test_each_kind_of_step_has_its_own_deadline():
    pace = Pace()
    lead(pace, HONEST)
    assert pace.usual("key") == inf
