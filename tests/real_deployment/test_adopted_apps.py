"""Real processes: apps like Flower's quickstarts, after two lines on each side, under `f2ed up`."""

import subprocess
import sys

import pytest

from tests.flower.adopted.apps import APPS, write_adopted

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("name", APPS)
def test_an_adopted_app_runs(tmp_path, name):
    app, kept = write_adopted(name, tmp_path / name), tmp_path / "kept"
    command = [sys.executable, "-m", "f2ed.cli", "up", str(app), "--nodes", "6", "--shards", "2", "--folder", str(kept)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "2 of 2 shards opened" in done.stdout
