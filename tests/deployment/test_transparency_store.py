"""The file of a log survives crashes, grows by whole lines and is continued in the next file."""

import os
import stat
import time
from datetime import UTC, datetime

import pytest

from f2ed import ConfigError, PeerError
from f2ed.core import files
from f2ed.deployment.transparency import read_line, write_line
from f2ed.deployment.transparency.lines import Boot, Pinned, Refused, Repaired, check_line, line_digest
from tests.deployment.logs import Federation, began, kinds, texts, uploaded


@pytest.fixture
def federation(tmp_path):
    return Federation.create(tmp_path)


def test_a_log_begins_with_its_boot_and_the_roster(federation):
    log = federation.log()
    newest = log.append()
    first, second = map(read_line, (text[:-1] for text in texts(log)))
    assert (first.data, second.data, newest) == (Boot(), Pinned(), second)
    assert second.previous == line_digest(first)
    assert (second.roster, second.serial) == (federation.roster.digest, 1)
    assert log.append() == newest


def test_another_roster_is_pinned_once(federation):
    federation.written()
    log = federation.log(roster=b"r" * 32, serial=2)
    assert log.append().data == Pinned()
    assert log.append(uploaded()).seq == log.append().seq
    assert federation.log(roster=b"r" * 32, serial=2).append().data == uploaded()


def test_a_line_is_read_in_its_canonical_form_alone(federation):
    text = write_line(federation.log().append())
    for other in (text.replace(b":", b": "), text[:-1], text.replace(b'"seq":1', b'"seq":1,"seq":1'), b"[]"):
        with pytest.raises(PeerError, match="line of a log"):
            read_line(other)


def test_an_event_of_the_server_is_not_read_from_a_node(federation):
    text = write_line(federation.log().append(began()))
    with pytest.raises(PeerError, match="an event Began by author -1"):
        read_line(text.replace(b'"by":0', b'"by":-1'))


def test_a_signature_holds_in_one_federation_alone(federation):
    line = federation.log().append()
    key = federation.roster.keys[0]
    check_line(line, key, lineage=federation.roster.lineage)
    with pytest.raises(PeerError, match="in this federation"):
        check_line(line, key, lineage="0" * 32)


def test_a_line_is_on_the_disk_before_it_is_returned(federation, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    log = federation.log()
    log.append(began())
    assert log.path.stat().st_size in synced


@pytest.mark.parametrize("cut", [1, 2, 40, 300, 600])
def test_a_torn_line_stays_is_named_and_is_not_counted(federation, cut):
    log = federation.written()
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[:-cut])
    newest = log.append(Refused(reason="the next one"))
    assert log.path.read_bytes().startswith(whole[:-cut])
    result = federation.verify(log)
    assert not [finding for finding in result.findings if finding.serious]
    assert kinds(result) == ([] if cut == 1 else ["repaired"])  # a line that lacks only its newline is whole
    assert newest.seq == result.files[0].last


def test_a_crash_during_the_repair_is_repaired_too(federation):
    log = federation.written()
    for cut in (100, 350):
        log.path.write_bytes(log.path.read_bytes()[:-cut])
        log.append()
        log.path.write_bytes(log.path.read_bytes()[:-cut])
    log.append(began(7))
    assert set(kinds(federation.verify(log))) == {"repaired"}


def test_a_first_line_that_is_torn_is_repaired(federation):
    log = federation.log()
    log.path.write_bytes(b'{"at":')
    log.append()
    assert isinstance(read_line(texts(log)[1][:-1]).data, Repaired)
    assert kinds(federation.verify(log)) == ["repaired"]


def test_a_long_torn_end_is_found(federation):
    log = federation.written()
    with log.path.open("ab") as file:
        file.write(b"x" * 200_000)
    assert log.append().seq == 8
    assert kinds(federation.verify(log)) == ["repaired"]


def test_the_log_of_another_author_is_not_continued(federation):
    federation.written(0)
    with pytest.raises(ConfigError, match=r"is the log of client 0, and this is client 1; name another"):
        federation.log(1, "a.log").append(began())


def test_a_full_disk_is_named(federation, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_write_through", full)
    with pytest.raises(ConfigError, match="cannot be written: No space left on device; make room"):
        federation.log().append()


def test_a_large_file_is_renamed_and_the_chain_goes_on(federation):
    log = federation.log(most_bytes=2000)
    for round_ in range(9):
        log.append(began(round_), uploaded(round_))
    files_ = sorted(federation.folder.glob("a*.log"))
    assert [path.name for path in files_[:2]] == ["a.000001.log", "a.000002.log"]
    result = federation.verify(*(log._replace(path=path) for path in reversed(files_)))
    assert not result.findings
    assert (result.files[0].first, result.files[-1].last) == (0, 19)


def test_a_crash_while_a_file_is_renamed_loses_nothing(federation):
    log = federation.written()
    log.path.rename(log.path.with_suffix(".000001.log"))
    assert log.append(began(9)).seq == 8


def test_only_its_user_reads_a_log(federation):
    log = federation.log(most_bytes=2000)
    for round_ in range(5):
        log.append(began(round_))
    found = {stat.S_IMODE(path.stat().st_mode) for path in federation.folder.glob("a*.log")}
    assert found == {0o600}


@pytest.mark.parametrize("zone", ["Etc/GMT+12", "Etc/GMT-12"])
def test_times_are_those_of_utc_wherever_the_node_is(federation, monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        line = federation.log().append()
    finally:
        monkeypatch.undo()
        time.tzset()
    written = datetime.strptime(line.at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - written).total_seconds()) < 3600


def test_the_secret_is_not_shown(federation):
    assert "secret" in repr(federation.log())
