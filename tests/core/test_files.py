import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from f2ed.core import files
from f2ed.core.errors import ConfigError
from f2ed.core.files import StoredValue, append, locked, write_atomic, write_or_refuse


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


def test_a_full_disk_is_named_and_what_to_do(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(ConfigError, match=r"the note .*a\.json cannot be written: No space left on device; make room"):
        write_or_refuse(tmp_path / "a.json", b"new", what="the note")
    with (
        locked(tmp_path / "b.json", remedy="wait") as lock,
        pytest.raises(ConfigError, match=r"b\.json cannot be written: No space left on device; make room"),
    ):
        lock.write(tmp_path / "b.json", b"new")


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


@pytest.fixture
def synced(monkeypatch):
    """Return what was on its way to the disk at each fsync: a file's content, or a folder's names."""
    found = []

    def fsync(handle):
        path = Path(f"/proc/self/fd/{handle}").readlink()
        found.append(sorted(each.name for each in path.iterdir()) if path.is_dir() else path.read_bytes())

    monkeypatch.setattr(files.os, "fsync", fsync)
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds the file behind a handle in /proc")
def test_a_write_syncs_the_whole_file_before_it_has_its_name_and_the_folder_after(tmp_path, synced):
    write_atomic(tmp_path / "b", b"whole")
    assert synced == [b"whole", ["b"]]
    write_atomic(tmp_path / "b", b"again")
    assert synced[2:] == [b"again", ["b"]]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds the file behind a handle in /proc")
def test_appending_syncs_the_line_and_the_name_of_a_new_file(tmp_path, synced):
    append(tmp_path / "a", b"1")
    append(tmp_path / "a", b"2")
    assert synced == [b"1", ["a"], b"12"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds the file behind a handle in /proc")
def test_a_write_under_a_lock_is_synced_too(tmp_path, synced):
    with locked(tmp_path / "a", remedy="") as lock:
        lock.write(tmp_path / "a", b"1")
    assert synced == [b"1", ["a", "a.lock"]]


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


def test_a_lock_file_is_never_removed(tmp_path):
    with locked(tmp_path / "a", remedy=""):
        first = (tmp_path / "a.lock").stat().st_ino
    with locked(tmp_path / "a", remedy=""):
        assert (tmp_path / "a.lock").stat().st_ino == first
    assert (tmp_path / "a.lock").stat().st_ino == first


@pytest.mark.parametrize("replaced", [False, True])
def test_who_lost_the_lock_file_writes_nothing(tmp_path, replaced):
    path, lock_file = tmp_path / "a", tmp_path / "a.lock"
    write_atomic(path, b"old")
    with locked(path, remedy="") as lock:
        lock.write(path, b"mine")
        lock_file.unlink()
        if replaced:
            lock_file.touch()
        with pytest.raises(ConfigError, match=r"a\.lock was removed or replaced while in use"):
            lock.write(path, b"too late")
    assert path.read_bytes() == b"mine"


def test_a_write_does_not_count_if_the_lock_was_lost_meanwhile(tmp_path, monkeypatch):
    path, replace = tmp_path / "a", Path.replace

    def steal(fresh, target):
        (tmp_path / "a.lock").unlink()
        return replace(fresh, target)

    monkeypatch.setattr(Path, "replace", steal)
    with locked(path, remedy="") as lock, pytest.raises(ConfigError, match="another process may have taken over"):
        lock.write(path, b"1")


def test_a_second_process_waits_for_the_folder_before_it_overwrites(tmp_path, monkeypatch):
    """The first lost its lock in the middle of a write: its old state must not replace a later one."""
    path, replace, order = tmp_path / "a", Path.replace, []

    def second():
        with locked(path, remedy="") as lock:
            lock.write(path, b"second")
            order.append("second")

    other = threading.Thread(target=second)

    def steal(fresh, target):
        if not other.ident:
            (tmp_path / "a.lock").unlink()
            other.start()
            other.join(0.2)  # it waits for the folder
            order.append("first")
        return replace(fresh, target)

    monkeypatch.setattr(Path, "replace", steal)
    with locked(path, remedy="") as lock, pytest.raises(ConfigError, match="removed or replaced"):
        lock.write(path, b"first")
    other.join(60)
    assert (order, path.read_bytes()) == (["first", "second"], b"second")


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


class Count(msgspec.Struct, frozen=True):
    value: Annotated[int, msgspec.Meta(ge=0)]


@pytest.fixture
def stored(tmp_path):
    return StoredValue(tmp_path / "a.count", Count, "the count", repair="restore it", remedy="name another folder")


def test_a_stored_value_is_read_and_replaced_under_its_lock(stored):
    assert stored.read() is None
    for before in (None, Count(1), Count(2)):
        with stored.hold() as held:
            assert held.before == before
            held.write(Count(1 if before is None else before.value + 1))
    assert stored.read() == Count(3)
    assert (stored.path.parent / "a.lock").exists()


def test_a_stored_value_has_one_writer_at_a_time(stored):
    def add():
        for _ in range(20):
            with stored.hold() as held:
                held.write(Count(1 if held.before is None else held.before.value + 1))

    workers = [threading.Thread(target=add) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert stored.read() == Count(80)
    with stored.hold(), pytest.raises(ConfigError, match="another process is using"), stored.hold(wait=0):
        pass


@pytest.mark.parametrize("content", [b"", b"{}", b'{"value": -1}', b"\xff"])
def test_a_damaged_stored_value_is_refused_and_left_alone(stored, content):
    stored.path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"the count in .* cannot be read .*; restore it"), stored.hold():
        pass
    assert stored.path.read_bytes() == content
