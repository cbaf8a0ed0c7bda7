"""A node names what keeps it from its SuperLink while it tries again."""

import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest

from f2ed.deployment.doctor.connection import Reading
from f2ed.deployment.doctor.watch import ConnectionWatch

GOOD = Reading(reached=True, expires=datetime.now(UTC) + timedelta(days=90), ahead=0.0)
EXPIRED = Reading("the certificate expired on 2026-01-01", "renew it", reached=True, ahead=0.0)
AWAY = Reading("cannot be reached", "start it")
LATE = GOOD._replace(ahead=-300.0)
SOON = GOOD._replace(expires=datetime.now(UTC) + timedelta(days=3, hours=1))


@pytest.fixture
def looked(caplog, tmp_path):
    def look(*readings, every=60.0):
        """Return the lines of a watch that sees these readings, one after another."""
        caplog.set_level(logging.INFO, "f2ed.deployment")
        left = list(readings)
        stop = threading.Event()

        def contact(*_):
            if len(left) == 1:
                stop.set()
            return left.pop(0)

        watch = ConnectionWatch("superlink:8000", tmp_path / "ca.crt", contact, every)
        waits = []
        stop.wait = lambda seconds: waits.append(seconds) or stop.is_set()
        watch.start(stop).join(5)
        assert waits == [every] * len(readings)
        return [(record.levelname, record.getMessage()) for record in caplog.records]

    return look


def test_an_expired_certificate_is_named_each_time_and_its_end_once(looked):
    lines = looked(EXPIRED, EXPIRED, GOOD, GOOD)
    assert [level for level, _ in lines] == ["ERROR", "ERROR", "INFO"]
    assert "the certificate expired on 2026-01-01; renew it" in lines[0][1]
    assert "answers again" in lines[2][1]


def test_a_wrong_clock_is_named(looked):
    ((level, line),) = looked(LATE)
    assert (level, "300 s behind the SuperLink" in line) == ("ERROR", True)


def test_a_superlink_that_is_away_is_named_and_a_quiet_connection_is_not(looked):
    assert looked(GOOD, GOOD) == []
    assert "cannot be reached" in looked(AWAY)[0][1]


def test_an_expiry_that_is_near_is_named_once_an_hour(looked):
    lines = looked(*[SOON] * 62)
    assert [level for level, _ in lines] == ["WARNING"] * 2
    assert "expires in 3 days" in lines[0][1]
