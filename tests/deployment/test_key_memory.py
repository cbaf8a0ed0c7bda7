"""Where a node's keys live, and when they count as lost."""

import os
import shutil
from pathlib import Path

import pytest

from f2ed.core.errors import ConfigError
from f2ed.deployment import key_memory
from f2ed.deployment.state_store import FileStore, Kept


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """Take a folder for the system's memory."""
    shared = tmp_path / "shm"
    shared.mkdir()
    mounts = tmp_path / "mounts"
    mounts.write_text(f"proc /proc proc rw 0 0\ntmpfs {shared} tmpfs rw 0 0\n")
    monkeypatch.setattr(key_memory, "_SHARED", shared)
    monkeypatch.setattr(key_memory, "_MOUNTS", mounts)
    return shared


def write(store, state=b"chains", job="job"):
    with store.open(job) as desk:
        desk.write(Kept(state))


def read(store, job="job"):
    with store.open(job) as desk:
        return desk.read().state


def the_file(folder):
    (found,) = (path for path in Path(folder).iterdir() if path.name.startswith("keys-") and not path.suffix)
    return found


def test_keys_go_to_memory_in_a_folder_of_this_user_alone(memory, tmp_path):
    folder = key_memory.key_folder(tmp_path / "a.state")
    assert folder.parent == memory / f"f2ed-{os.getuid()}"
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert folder != key_memory.key_folder(tmp_path / "b.state")
    store = FileStore(folder)
    write(store)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert the_file(folder).stat().st_mode & 0o777 == 0o600
    assert read(store) == b"chains"


@pytest.mark.parametrize("kind", ["ext4", "none"])
def test_without_memory_keys_go_to_the_disk_with_a_warning(memory, tmp_path, caplog, kind):
    lines = [] if kind == "none" else [f"tmpfs {memory} tmpfs rw 0 0", f"/dev/sda {memory} {kind} rw 0 0"]
    (tmp_path / "mounts").write_text("\n".join(lines))
    assert key_memory.key_folder(tmp_path / "a.state") == tmp_path / "a.state"
    assert "no folder in memory on this system" in caplog.text
    (tmp_path / "mounts").unlink()
    assert key_memory.memory_folder(tmp_path / "a.state") is None


@pytest.mark.parametrize("wrong", ["open to others", "a link"])
def test_a_folder_that_another_user_may_have_made_is_refused(memory, tmp_path, wrong):
    mine = memory / f"f2ed-{os.getuid()}"
    if wrong == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        mine.symlink_to(tmp_path / "elsewhere")
    else:
        mine.mkdir()
        mine.chmod(0o755)
    with pytest.raises(ConfigError, match="not a folder that this user alone may enter"):
        key_memory.key_folder(tmp_path / "a.state")


def test_a_folder_of_another_user_is_refused(memory, tmp_path, monkeypatch):
    assert key_memory.memory_folder(tmp_path / "a.state").parent.parent == memory
    (memory / "f2ed-4711").mkdir(mode=0o700)
    monkeypatch.setattr(key_memory.os, "getuid", lambda: 4711)
    with pytest.raises(ConfigError, match="is not a folder that this user alone may enter"):
        key_memory.memory_folder(tmp_path / "a.state")


def test_memory_in_which_this_user_may_not_write_is_not_used(memory, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(key_memory.os, "access", lambda *what: asked.append(what))
    assert key_memory.memory_folder(tmp_path / "a.state") is None
    assert asked == [(memory, os.W_OK | os.X_OK)]


def test_this_system_is_asked_for_its_memory(tmp_path):
    found = key_memory.memory_folder(tmp_path / "a.state")
    assert found is None or found.parent == key_memory._SHARED / f"f2ed-{os.getuid()}"


def test_keys_of_another_boot_count_as_lost(tmp_path, monkeypatch, caplog):
    store = FileStore(tmp_path)
    write(store)
    boot = tmp_path / "boot_id"
    boot.write_text("another\n")
    monkeypatch.setattr(key_memory, "_BOOT", boot)
    assert read(store) == b""
    assert "of another boot or from a backup" in caplog.text


def test_a_system_without_a_boot_id_is_known_by_the_time_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(key_memory, "_BOOT", tmp_path / "none")
    store = FileStore(tmp_path)
    write(store)
    assert read(store) == b"chains"


def restored_later(path, backup, monkeypatch, seconds):
    """Restore a file as backup programs do, with its old times, when some seconds have passed."""
    shutil.copy2(backup, path)
    real = Path.stat
    monkeypatch.setattr(Path, "stat", lambda self, **how: _Later(real(self, **how), seconds))


class _Later:
    """A file whose change is stamped later than it was; tests do not wait."""

    def __init__(self, found, seconds):
        self._found, self._seconds = found, seconds

    def __getattr__(self, name):
        value = getattr(self._found, name)
        return value + self._seconds * 10**9 if name == "st_ctime_ns" else value


def test_a_restored_copy_has_another_stamp_whatever_times_it_claims(tmp_path):
    store = FileStore(tmp_path / "state")
    write(store)
    path = the_file(tmp_path / "state")
    shutil.copy2(path, tmp_path / "backup")
    stamp = path.stat().st_ctime_ns
    write(store, b"later chains")
    shutil.copy2(tmp_path / "backup", path)
    assert path.stat().st_ctime_ns > stamp


def test_keys_that_were_restored_from_a_backup_count_as_lost(tmp_path, monkeypatch):
    store = FileStore(tmp_path / "state")
    write(store)
    path = the_file(tmp_path / "state")
    shutil.copy2(path, tmp_path / "backup")
    write(store, b"later chains")
    restored_later(path, tmp_path / "backup", monkeypatch, seconds=11)
    assert read(store) == b""


def test_keys_from_the_future_count_as_lost(tmp_path, monkeypatch):
    store = FileStore(tmp_path)
    write(store)
    monkeypatch.setattr(key_memory.time, "time_ns", lambda: 0)
    assert read(store) == b""


def test_a_new_serial_erases_the_keys_of_the_old_one(tmp_path):
    write(FileStore(tmp_path, "clinics", 1))
    write(FileStore(tmp_path, "banks", 1))
    write(FileStore(tmp_path, "clinics", 2), b"new")
    assert read(FileStore(tmp_path, "clinics", 1)) == b""
    assert read(FileStore(tmp_path, "clinics", 2)) == b"new"
    assert read(FileStore(tmp_path, "banks", 1)) == b"chains"


def test_the_keys_of_a_job_are_erased_when_two_others_have_begun(tmp_path):
    store = FileStore(tmp_path, "clinics", 1)
    for job in "abc":
        write(store, job=job)
    found = [path for path in tmp_path.glob("keys-*") if not path.suffix]
    assert len(found) == 2
    assert read(store, "c") == b"chains"


def test_everything_of_a_federation_can_be_forgotten(tmp_path):
    store = FileStore(tmp_path, "clinics", 1)
    write(store, job="a")
    write(store, job="b")
    write(FileStore(tmp_path, "banks", 1))
    (tmp_path / "clinics.rounds").write_text("{}")
    assert store.forget() == 2
    assert store.forget() == 0
    assert (read(store, "a"), read(FileStore(tmp_path, "banks", 1))) == (b"", b"chains")
    assert (tmp_path / "clinics.rounds").exists()
