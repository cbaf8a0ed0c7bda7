"""The live page's server, spoken to over loopback."""

import gzip
import json
import socket
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from f2ed.core.errors import ConfigError
from f2ed.records import line
from f2ed.report import follow
from f2ed.report.follow import Board, Folder
from f2ed.report.watch import serve
from tests.report.report_runs import demo, deployed, deployed_record, header, record, save


def append(path, *records):
    with path.open("ab") as file:
        file.write(b"".join(map(line, records)))


@contextmanager
def stream(url, mark=""):
    """Read the events of a live page; each call of what is yielded waits for the next."""
    with urllib.request.urlopen(f"{url}events?since={mark}", timeout=20) as answer:  # noqa: S310  loopback

        def following():
            fields = {}
            while text := answer.readline().decode().rstrip("\n"):
                name, _, value = text.partition(": ")
                fields[name] = value
            return (fields["id"], json.loads(fields["data"])) if "data" in fields else following()

        yield following


def test_the_page_and_then_each_round_as_it_is_written(tmp_path):
    head = header(rounds=5)
    path = save(tmp_path, head, rounds=2)
    with serve(tmp_path) as url:
        with urllib.request.urlopen(url) as answer:  # noqa: S310  loopback
            assert b"data-live" in answer.read()
        with stream(url) as following:
            _, first = following()
            assert first["reset"]
            assert first["runs"][path.name]["columns"]["round"] == [0, 1]
            append(path, record(head, 2))
            _, second = following()
            assert not second["reset"]
            assert second["runs"][path.name]["columns"]["round"] == [0, 1, 2]


def test_the_audit_file_of_a_deployment_is_followed_by_itself(tmp_path):
    head = deployed(rounds=5)
    path = tmp_path / "audit.jsonl"
    save(tmp_path, header(), name="another")
    with serve(path) as url, stream(url) as following:
        following()
        path.write_bytes(line(head) + line(deployed_record(head, 0)))
        _, found = following()
        assert list(found["runs"]) == ["audit.jsonl"]
        assert "Deployment: 1 round, none skipped." in found["html"]["verdict"]


def test_only_what_changed_is_sent(tmp_path):
    head = header(rounds=5)
    path = save(tmp_path, head, rounds=1)
    save(tmp_path, header(seed=9), name="other")
    with serve(tmp_path) as url, stream(url) as following:
        mark, first = following()
        assert set(first["runs"]) == {path.name, "other.jsonl"}
        append(path, record(head, 1))
        assert set(following()[1]["runs"]) == {path.name}
        with stream(url, mark) as late:
            assert set(late()[1]["runs"]) == {path.name}


def test_a_page_from_another_server_gets_everything_again(tmp_path):
    path = save(tmp_path, header())
    with serve(tmp_path) as url, stream(url, "0123abcd.7") as following:
        _, found = following()
        assert found["reset"]
        assert set(found["runs"]) == {path.name}


def test_new_files_join_and_deleted_ones_leave(tmp_path):
    first = save(tmp_path, header())
    with serve(tmp_path) as url, stream(url) as following:
        following()
        second = save(tmp_path, header(seed=1), name="second")
        assert second.name in following()[1]["runs"]
        first.unlink()
        assert following()[1]["gone"]["runs"] == [first.name]


def test_a_folder_that_is_not_there_yet_is_waited_for(tmp_path):
    with serve(tmp_path / "later") as url, stream(url, "none.0") as following:
        assert following()[1]["runs"] == {}
        path = save(tmp_path / "later", header())
        assert path.name in following()[1]["runs"]


def test_a_foreign_name_that_points_here_is_refused(tmp_path):
    with serve(tmp_path) as url:
        request = urllib.request.Request(url, headers={"Host": "evil.example"})  # noqa: S310  loopback
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request)  # noqa: S310  loopback
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}etc/passwd")  # noqa: S310  loopback


def test_a_busy_port_is_refused_with_what_to_do(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} is in use .* --port"), serve(tmp_path, port):
            pass
    with pytest.raises(ConfigError, match="port 70000"), serve(tmp_path, 70000):
        pass


def test_leaving_ends_all_threads(tmp_path):
    before = threading.active_count()
    with serve(tmp_path) as url, stream(url, "x"):
        pass
    for thread in threading.enumerate():
        if "process_request_thread" in thread.name:
            thread.join(5)
    assert threading.active_count() <= before


def rounds_of(folder):
    runs, _ = folder.read()
    return {run.file: [each.round for each in run.rounds] for run in runs}


def test_a_look_without_news_says_so(tmp_path):
    demo(tmp_path, estimators=("mean",))
    folder = Folder(tmp_path)
    assert folder.look()
    assert not folder.look()


def test_a_file_begun_anew_is_read_anew(tmp_path):
    head = header(rounds=9)
    path = save(tmp_path, head, rounds=5)
    folder = Folder(tmp_path)
    folder.look()
    save(tmp_path, head, rounds=2)
    assert folder.look()
    assert rounds_of(folder) == {path.name: [0, 1]}


def test_a_file_replaced_by_a_longer_one_of_another_run_is_read_anew(tmp_path):
    path = save(tmp_path, header(rounds=9), rounds=1)
    folder = Folder(tmp_path)
    folder.look()
    other = header(attack="krum-attack", rounds=9)
    path.write_bytes(b"".join(map(line, [other, *(record(other, number) for number in range(6))])))
    assert folder.look()
    (run,), problems = folder.read()
    assert run.header == other
    assert len(run.rounds) == 6
    assert problems == []


def test_a_line_in_the_making_is_a_problem_only_once_nothing_follows(tmp_path, monkeypatch):
    head = header(rounds=9)
    path = save(tmp_path, head, rounds=2)
    with path.open("ab") as file:
        file.write(line(record(head, 2))[:50])
    folder = Folder(tmp_path)
    folder.look()
    assert folder.read()[1] == []
    monkeypatch.setattr(follow, "_SETTLED", 0.0)
    assert folder.look()
    ((problem,), again) = folder.read()[1], folder.look()
    assert "cut off" in problem.text
    assert not again
    with path.open("ab") as file:
        file.write(line(record(head, 2))[50:])
    assert folder.look()
    assert folder.read()[1] == []
    assert rounds_of(folder) == {path.name: [0, 1, 2]}


def test_what_a_board_keeps_does_not_grow_with_the_rounds(tmp_path):
    head = header(rounds=100_000)
    path = save(tmp_path, head, rounds=0)
    folder, board, sizes = Folder(tmp_path), Board(), []
    for first in range(0, 6000, 1500):
        append(path, *(record(head, number) for number in range(first, first + 1500)))
        folder.look()
        board.update(*folder.read())
        sizes.append(len(board.since("")))
    assert sizes[-1] < 1.5 * sizes[0]


def test_a_compressed_run_is_shown_and_one_packed_anew_is_read_anew(tmp_path):
    head, packed = header(), tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(line(head) + line(record(head, 0))))
    folder = Folder(tmp_path)
    assert folder.look()
    assert not folder.look()
    packed.write_bytes(gzip.compress(b"".join(map(line, [head, record(head, 0), record(head, 1)]))))
    assert folder.look()
    ((run,), problems) = folder.read()
    assert (len(run.rounds), problems) == (2, [])
