"""`f2ed up` leaves nothing behind."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

APP = Path(__file__).parent / "app"


def running(folder):
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True, check=True)  # noqa: S607
    return [line for line in listed.stdout.splitlines() if str(folder) in line and "f2ed.cli up" not in line]


@pytest.fixture
def interruptible():
    """Let child processes receive Ctrl-C: in a background job it is turned off."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_whatever_was_started_ends_when_it_is_interrupted(tmp_path):
    folder = tmp_path / "kept"
    command = [sys.executable, "-u", "-m", "f2ed.cli", "up", str(APP), "--nodes", "3", "--shards", "1"]
    with subprocess.Popen([*command, "--folder", str(folder)], stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:
                if "SuperNodes are starting" in line:
                    break
            assert len(running(folder)) >= 4
            process.send_signal(signal.SIGINT)
            status = process.wait(60)
        finally:
            process.terminate()
    assert status != 0
    assert running(folder) == []
