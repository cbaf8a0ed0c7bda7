"""Clients that fail repeatedly are left out for a while, and come back."""

import pytest

from f2ed.deployment.quarantine import Quarantine

NAMES = {client: f"clinic {client}" for client in range(6)}
BAD, OTHERS = 0, [1, 2, 3, 4, 5]


@pytest.fixture
def quarantine():
    return Quarantine(NAMES, longest=8)


def lead(quarantine, *, fails):
    """Lead a round; return whether the bad client was asked."""
    if BAD in quarantine.left_out():
        quarantine.after_round({}, OTHERS)
        return False
    quarantine.after_round({BAD: "late"} if fails else {}, OTHERS if fails else [BAD, *OTHERS])
    return True


def test_three_faults_lead_to_quarantine_which_names_reason_number_and_way_back(quarantine, caplog):
    for _ in range(2):
        lead(quarantine, fails=True)
        assert quarantine.left_out() == {}
    lead(quarantine, fails=True)
    assert quarantine.left_out() == {BAD: "in quarantine for 2 rounds after 3 faults, the last: late"}
    assert "client 0 (clinic 0) is in quarantine for 2 rounds after 3 faults, the last: late" in caplog.text
    lead(quarantine, fails=True)
    assert "for 1 round after" in quarantine.left_out()[BAD]


def test_it_lasts_twice_as_long_each_time_up_to_a_cap(quarantine):
    asked = [lead(quarantine, fails=True) for _ in range(40)]
    gaps = "".join("x" if each else "." for each in asked)
    assert gaps.startswith("xxx..x....x........x........x........x")


def test_who_does_well_afterwards_starts_from_the_beginning(quarantine):
    for _ in range(3):
        lead(quarantine, fails=True)
    for _ in range(20):
        lead(quarantine, fails=False)
    for _ in range(3):
        assert lead(quarantine, fails=True)
    assert "for 2 rounds after 6 faults" in quarantine.left_out()[BAD]


@pytest.mark.parametrize("good", [1, 2, 3])
def test_good_rounds_in_between_do_not_make_up_for_faults(quarantine, good):
    """Otherwise an attacker would cost every second round a deadline, for ever."""
    asked = [lead(quarantine, fails=place % (good + 1) == 0) for place in range(400)]
    assert asked.count(False) > 100


def test_a_client_that_fails_rarely_is_always_asked(quarantine):
    assert all(lead(quarantine, fails=place % 6 == 0) for place in range(300))


def test_a_client_that_reconnects_comes_back_at_once_but_not_for_ever(quarantine):
    shortened = 0
    for _ in range(60):
        if BAD in quarantine.left_out():
            quarantine.reconnected(BAD)
            shortened += BAD not in quarantine.left_out()
        lead(quarantine, fails=True)
    assert shortened == 3


def test_an_outage_is_nobodys_fault(quarantine, caplog):
    for _ in range(5):
        quarantine.after_round({0: "late", 1: "late", 2: "late", 3: "late"}, [4, 5])
    assert quarantine.left_out() == {}
    assert "4 of 6 clients failed in one round: an outage" in caplog.text


def test_everyone_is_released_when_a_round_needs_them(quarantine, caplog):
    for _ in range(3):
        lead(quarantine, fails=True)
    quarantine.release()
    assert quarantine.left_out() == {}
    assert "leaves quarantine early: without it too few shards can open" in caplog.text
