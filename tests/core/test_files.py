import os
import subprocess
import sys
import threading

import pytest

from f2ed.core import files
from f2ed.core.errors import ConfigError
from f2ed.core.files import append, locked, write_atomic


def test_a_write_replaces_the_whole_file_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "a.json"
    write_atomic(path, b"a longer first content")
    write_atomic(path, b"second")
    assert path.read_bytes() == b"second"
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_atomic(path, b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(("mode", "wanted"), [(None, 0o600), (0o666, 0o644)])
def test_a_file_is_for_its_owner_unless_a_mode_is_given(tmp_path, mode, wanted):
    before = os.umask(0o022)
    try:
        write_atomic(tmp_path / "a", b"", **({} if mode is None else {"mode": mode}))
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == wanted


def test_appending_adds_to_the_end_and_creates_a_missing_file(tmp_path):
    append(tmp_path / "a.jsonl", b"1\n")
    append(tmp_path / "a.jsonl", b"2\n")
    assert (tmp_path / "a.jsonl").read_bytes() == b"1\n2\n"


def test_writing_and_appending_reach_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(files.os, "fsync", synced.append)
    append(tmp_path / "a", b"1")
    assert len(synced) == 1
    write_atomic(tmp_path / "b", b"1")  # the file, then the folder that names it
    assert len(synced) == 3


def test_a_lock_that_is_held_is_refused_with_a_remedy(tmp_path):
    path = tmp_path / "a.jsonl"
    with (
        locked(path, remedy="choose another --out"),
        pytest.raises(ConfigError, match=r"another process is using .*a\.jsonl; wait .*, or choose another --out"),
        locked(path, wait=0, remedy="choose another --out"),
    ):
        pytest.fail("two held the lock")
    with locked(path, wait=0, remedy=""):
        pass
    assert not list(tmp_path.iterdir())


def test_a_lock_is_waited_for_and_one_at_a_time_holds_it(tmp_path):
    path, inside, most = tmp_path / "a", 0, 0

    def work():
        nonlocal inside, most
        for _ in range(20):
            with locked(path, remedy=""):
                inside += 1
                most = max(most, inside)
                inside -= 1

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert (inside, most) == (0, 1)


def test_a_lock_ends_with_its_process(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from f2ed.core.files import locked\n"
        "with locked(Path(sys.argv[1]), remedy=''): os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")], check=True)
    assert (tmp_path / "a.lock").exists()
    with locked(tmp_path / "a", wait=0, remedy=""):
        pass


def test_a_lock_removes_writes_that_a_crash_cut_off_and_no_others(tmp_path):
    for name in ("a.jsonl.123-4.new", "a.checkpoint.123-4.new", "ab.jsonl.123-4.new"):
        (tmp_path / name).write_bytes(b"half")
    with locked(tmp_path / "a.jsonl", remedy=""):
        assert {each.name for each in tmp_path.iterdir()} == {"a.lock", "ab.jsonl.123-4.new"}


def test_a_lock_that_cannot_be_created_names_the_reason_and_the_remedy(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with (
        pytest.raises(ConfigError, match=r"a\.lock cannot be created: .*; name another folder"),
        locked(tmp_path / "file" / "a", remedy="name another folder"),
    ):
        pytest.fail("locked")


def test_files_work_on_systems_without_fcntl(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.delattr(files.os, "O_DIRECTORY", raising=False)
    with locked(tmp_path / "a", wait=0, remedy=""):
        write_atomic(tmp_path / "a", b"1")
    assert (tmp_path / "a").read_bytes() == b"1"
