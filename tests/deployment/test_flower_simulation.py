"""The same mod and the same server in Flower's simulation engine, with ray."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")


def test_many_clients_of_whom_some_fail_in_every_round(tmp_path):
    script, out = Path(__file__).parent / "simulate.py", tmp_path / "found.json"
    quiet = {"FLWR_HOME": str(tmp_path), "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, str(script), "24", "4", "4", "dropout-tolerant", str(out)]
    ended = subprocess.run(command, env=os.environ | quiet, capture_output=True, text=True, timeout=200, check=False)
    assert out.exists(), ended.stderr[-3000:]
    found = json.loads(out.read_text())
    assert found["dropped"] == found["failing"]
    assert sum(map(len, found["failing"])) > 0
    assert found["opened"] == [4] * 4
    assert found["error"] < 1e-5
    assert "TEST ROSTER" in ended.stderr + ended.stdout
