"""Helpers that are down for a while are asked again; clients are not."""

import pytest

from f2ed.flower import persistent
from f2ed.flower.courier import SILENT
from f2ed.flower.persistent import Persistent
from f2ed.protocol.helpers.messages import Refused, write

DOWN = write(Refused(SILENT))
REFUSED = write(Refused("another reason"))


class Scripted:
    """Answers from a list of replies for each party; an error in place of bytes is a fault of the network."""

    def __init__(self, **replies):
        self.replies = {int(name[1:]) if name[1:].isdigit() else name: list(each) for name, each in replies.items()}
        self.errors, self.late, self.asked = {}, set(), []

    def __call__(self, requests):
        self.asked.append(sorted(requests, key=str))
        for party in requests:
            answer = self.replies[party].pop(0)
            if isinstance(answer, bytes):
                yield party, answer
            elif answer is None:
                self.late.add(party)
                self.errors[party] = "late"
            else:
                self.errors[party] = str(answer)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Let each pause take a second of a clock of the test's own."""
    now = [0.0]
    monkeypatch.setattr(persistent.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(persistent.time, "sleep", lambda _: now.__setitem__(0, now[0] + 1))


def ask(exchange, patience=10.0):
    return list(Persistent(exchange, patience)(dict.fromkeys(exchange.replies, b"request")))


def test_a_helper_that_comes_back_answers_and_the_other_is_not_asked_twice():
    exchange = Scripted(mixer=[DOWN, PermissionError("no node"), b"set"], judge=[b"set"])
    assert ask(exchange) == [("judge", b"set"), ("mixer", b"set")]
    assert exchange.asked == [["judge", "mixer"], ["mixer"], ["mixer"]]
    assert exchange.errors == {}


def test_one_that_stays_down_is_given_up_by_name():
    exchange = Scripted(mixer=[DOWN] * 9)
    assert ask(exchange, patience=2.5) == [("mixer", DOWN)]
    assert len(exchange.asked) == 4


def test_one_that_is_late_or_refuses_is_not_asked_again():
    assert ask(late := Scripted(mixer=[None])) == []
    assert len(late.asked) == 1
    assert ask(refusing := Scripted(judge=[REFUSED])) == [("judge", REFUSED)]
    assert len(refusing.asked) == 1


def test_clients_are_asked_once():
    exchange = Scripted(c1=[DOWN], c2=[ValueError("gone")])
    assert ask(exchange) == [(1, DOWN)]
    assert len(exchange.asked) == 1
