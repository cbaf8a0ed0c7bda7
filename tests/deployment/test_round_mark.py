"""The last round of a node, on disk."""

import threading

import pytest

from f2ed.core import files
from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.round_mark import RoundMark


@pytest.fixture
def mark(tmp_path):
    return RoundMark(tmp_path / "a.rounds", 0, 10)


def test_a_round_is_spent_once_and_on_disk_with_its_folder(mark, monkeypatch):
    synced = []
    monkeypatch.setattr(files.os, "fsync", synced.append)
    mark.spend(3)
    assert len(synced) == 2
    assert mark.last() == 3
    for round_ in (0, 2, 3):
        with pytest.raises(Refusal, match=f"round {round_} is not after round 3"):
            mark.spend(round_)
    with pytest.raises(Refusal, match="round 14 is beyond round 13"):
        mark.spend(14)
    assert mark.last() == 3


def test_the_first_rounds_are_those_that_the_roster_was_signed_for(tmp_path):
    mark = RoundMark(tmp_path / "a.rounds", 5, 10)
    with pytest.raises(Refusal, match="round 4 is before round 5, the first one"):
        mark.check(4)
    with pytest.raises(Refusal, match="round 15 is beyond round 14"):
        mark.check(15)
    mark.check(5)
    mark.spend(14)
    with pytest.raises(Refusal, match="round 25 is beyond round 24"):
        mark.check(25)


def test_to_check_spends_nothing(mark):
    mark.check(9)
    assert mark.last() == -1


def test_of_many_at_once_one_gets_the_round(mark):
    won = []

    def work(who):
        try:
            mark.spend(0)
        except Refusal:
            return
        won.append(who)

    workers = [threading.Thread(target=work, args=(who,)) for who in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(won) == 1


@pytest.mark.parametrize("content", [b"", b"{}", b'{"round": -4}', b"12"])
def test_a_damaged_mark_is_refused_and_left_alone(mark, content):
    mark.path.write_bytes(content)
    with pytest.raises(ConfigError, match="the last round in"):
        mark.spend(1)
    assert mark.path.read_bytes() == content
