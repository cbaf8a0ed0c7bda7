"""Arrays beyond a memory budget: the same values, nothing left on the disk, and a clear error where it is full."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from f2ed.core import spill as spills
from f2ed.core.errors import ConfigError
from f2ed.core.spill import Spill, forget, is_spilled, spill_beside

ROOT = Path(__file__).parents[2]
PAGES = 100
WORDS = PAGES * 1024


def resident(array):
    """Return how many KiB of the mapping that holds an array are in memory, as the kernel says."""
    address, here = array.ctypes.data, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name = line.split()[0]
        if "-" in name and ":" not in name:
            first, last = (int(each, 16) for each in name.split("-"))
            here = first <= address < last
        elif here and name == "Rss:":
            return int(line.split()[1])
    raise AssertionError("no such mapping")


def test_arrays_are_in_memory_up_to_the_budget_and_in_files_beyond_it(tmp_path):
    spill = Spill(1000, tmp_path)
    small = spill((100,), np.float32)
    large = spill((2, 100), np.float32)
    assert (is_spilled(small), is_spilled(large)) == (False, True)
    assert spill.in_files == 800
    assert not large.any()


def test_what_is_freed_can_be_used_again(tmp_path):
    spill = Spill(1000, tmp_path)
    first = spill((250,), np.float32)
    view = first[10:]
    del first
    assert is_spilled(spill((250,), np.float32))
    del view
    assert not is_spilled(spill((250,), np.float32))
    assert spill.in_files == 0


def test_no_file_is_left_even_while_it_is_in_use(tmp_path):
    spill = Spill(0, tmp_path)
    spill((WORDS,), np.float32)[:] = 1
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_after_a_kill(tmp_path):
    code = (
        "import os, signal, numpy as np; from pathlib import Path; from f2ed.core.spill import Spill\n"
        f"Spill(0, Path({str(tmp_path)!r}))((9999,), np.float32)[:] = 1; os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, check=False)
    assert done.returncode == -9
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="this system does not tell what is in memory")
def test_forgotten_pages_leave_the_process_and_keep_their_values(tmp_path):
    matrix = Spill(0, tmp_path)((3, WORDS), np.float32)
    matrix[:] = np.arange(WORDS)
    assert resident(matrix) == 3 * PAGES * 4
    view = np.asarray(matrix)[:, 1024 * 10 : 1024 * 60]
    forget(view)
    assert resident(matrix) == 3 * (PAGES - 50) * 4
    forget(matrix)
    assert resident(matrix) == 0
    assert (matrix == np.arange(WORDS)).all()


def test_other_arrays_are_left_alone():
    array = np.ones(WORDS)
    forget(array)
    assert array.all()


def test_a_full_disk_is_said_before_anything_is_asked(tmp_path):
    spill = Spill(1 << 20, tmp_path)
    spill.check_room(1 << 20)
    with pytest.raises(ConfigError, match=r"GiB free, and arrays beyond the memory budget need .* spill_folder"):
        spill.check_room(1 << 60)


def test_a_disk_that_fills_up_is_an_error_and_no_crash(tmp_path, monkeypatch):
    def full(_handle, _size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spills, "_reserve", full)
    monkeypatch.setattr(spills.shutil, "disk_usage", lambda _folder: SimpleNamespace(free=10))
    spill = Spill(0, tmp_path)
    with pytest.raises(ConfigError, match=r"has 0\.00 GiB free, and arrays .* need 0\.00 GiB"):
        spill((WORDS,), np.float32)
    assert spill.in_files == 0


def test_another_failure_names_the_folder(tmp_path, monkeypatch):
    def broken(_handle, _size):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(spills, "_reserve", broken)
    with pytest.raises(ConfigError, match=r"cannot hold arrays beyond the memory budget: Input/output error"):
        Spill(0, tmp_path)((WORDS,), np.float32)


def test_without_fallocate_the_room_is_written(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    array = Spill(0, tmp_path)((WORDS * 3,), np.float32)
    array[-1] = 7
    assert array.sum() == 7


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"budget": -1, "folder": "."}, "a memory budget of -1 bytes"),
        ({"budget": 1, "folder": "no/such/folder"}, "is not a folder that can be written"),
        ({"budget": None, "folder": "."}, "spill_folder without memory_budget"),
    ],
    ids=["negative", "missing", "useless"],
)
def test_settings_that_make_no_sense_are_refused(given, words):
    with pytest.raises(ConfigError, match=words):
        spill_beside(None, **given)


def test_files_go_beside_the_checkpoint(tmp_path):
    assert spill_beside(None, budget=None, folder=None) is None
    assert spill_beside(None, budget=5, folder=None).budget == 5
    spill_beside(tmp_path / "new" / "model.checkpoint", budget=5, folder=None)
    assert (tmp_path / "new").is_dir()
