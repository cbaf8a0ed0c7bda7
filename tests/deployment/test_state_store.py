"""A node's state on disk: whole after a crash at any point, and with one writer at a time."""

import signal
import subprocess
import sys

import pytest

from f2ed.core import files
from f2ed.core.errors import ConfigError
from f2ed.deployment.state_store import FileStore, Kept
from f2ed.protocol.dp import Budget

# Kills itself at the n-th call that changes the disk, before or after it; prints how many there were otherwise.
CRASH = """
import os, signal, sys
from pathlib import Path
from f2ed.core import files
from f2ed.deployment.state_store import FileStore, Kept
folder, at, late = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "after"
calls = 0
def deadly(function):
    def called(*args, **kwargs):
        global calls
        calls += 1
        mine = calls
        if mine == at and not late:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*args, **kwargs)
        if mine == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return called
with FileStore(folder).open("job") as desk:
    assert desk.read() == Kept(b"old", b"model")
    for name in ("open", "write", "fsync"):
        setattr(os, name, deadly(getattr(os, name)))
    Path.replace = deadly(Path.replace)
    desk.write(Kept(b"new", b"model"))
print(calls)
"""


def crash(folder, at, when):
    command = [sys.executable, "-c", CRASH, str(folder), str(at), when]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_a_crash_at_any_write_leaves_the_old_state_or_the_new_one(tmp_path):
    def prepared(name):
        with FileStore(tmp_path / name).open("job") as desk:
            desk.write(Kept(b"old", b"model"))
        return tmp_path / name

    whole = crash(prepared("whole"), 0, "before")
    calls = int(whole.stdout)
    assert calls >= 6, whole.stderr  # folder, file, write, sync, rename, folder, sync
    found = []
    for at in range(1, calls + 1):
        folder = prepared(f"crash_{at}")
        assert crash(folder, at, "after" if at == calls else "before").returncode == -signal.SIGKILL
        with FileStore(folder).open("job") as desk:
            found.append(desk.read().state)
            desk.write(Kept(b"newer", b"model"))
            assert desk.read().state == b"newer"
        assert not list(folder.glob("*.new"))
    assert found == sorted(found, reverse=True)  # first all old, then all new
    assert (found[0], found[-1]) == (b"old", b"new")


def test_a_state_is_synced_with_its_folder_before_it_counts(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(files.os, "fsync", synced.append)
    with FileStore(tmp_path).open("job") as desk:
        desk.write(Kept(b"1"))
        assert len(synced) == 2
        desk.write(Kept(b"2"))
        assert len(synced) == 4


def test_a_store_whose_lock_file_was_removed_keeps_nothing(tmp_path):
    with FileStore(tmp_path).open("job") as desk:
        desk.write(Kept(b"1"))
        next(tmp_path.glob("*.lock")).unlink()
        with pytest.raises(ConfigError, match="was removed or replaced while in use"):
            desk.write(Kept(b"2"))
        assert desk.read() == Kept(b"1")


def test_lock_files_stay_when_the_states_of_old_jobs_are_forgotten(tmp_path):
    for job in range(40):
        with FileStore(tmp_path).open(str(job)) as desk:
            desk.write(Kept(b"1"))
    assert len([path for path in tmp_path.iterdir() if not path.suffix]) == 2
    assert len(list(tmp_path.glob("*.lock"))) == 40


def test_a_ledger_is_synced_and_its_lock_file_stays(tmp_path, monkeypatch):
    pytest.importorskip("scipy")
    synced = []
    monkeypatch.setattr(files.os, "fsync", synced.append)
    Budget(tmp_path / "spent.json", 8.0, 1e-5).pay(0.01)
    assert len(synced) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"spent.json", "spent.lock"}
