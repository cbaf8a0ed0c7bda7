"""The same mod and the same server in Flower's simulation engine, with ray."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ray")


ROOT = Path(__file__).parents[2]


def alone(command):
    """Return a command that runs another where there is no network but loopback: ray listens on all there is.

    Where a machine does not let a user have a network of their own, the command is as it was.
    """
    wrapped = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    try:
        allowed = subprocess.run([*wrapped, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    return [*wrapped, *command] if allowed else command


def quiet(folder):
    """Return an environment in which Flower and ray keep to themselves."""
    return os.environ | {"FLWR_HOME": str(folder), "FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}


def test_many_clients_of_whom_some_fail_in_every_round(tmp_path):
    out = tmp_path / "found.json"
    numbers = ["--clients", "24", "--shards", "4", "--rounds", "4"]
    command = [sys.executable, str(ROOT / "benchmarks" / "flower_load.py"), *numbers, "--out", str(out)]
    ended = subprocess.run(
        alone(command), env=quiet(tmp_path), capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    rounds = json.loads(out.read_text())["rounds"]
    assert all(each["dropped"] == each["failing"] and each["done"] for each in rounds)
    assert any(each["failing"] for each in rounds)
    assert [each["opened"] for each in rounds] == [4] * 4
    assert max(each["error"] for each in rounds) < 1e-5
    assert "TEST ROSTER" in ended.stderr + ended.stdout


def test_masked_equals_plain_equals_flower_to_the_bit(tmp_path):
    """The shard means and the model of every round, with the seeds of `f2ed.simulate`."""
    script = Path(__file__).parent / "parity.py"
    paths = os.pathsep.join([str(script.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(script), str(tmp_path)]
    environment = quiet(tmp_path / "home") | {"PYTHONPATH": paths}
    ended = subprocess.run(alone(command), env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = {path.stem: np.load(path) for path in tmp_path.glob("*.npy")}
    assert len(found) == 3 * 3 * 2
    for what in ("means", "model"):
        for round_ in (1, 2, 3):
            masked, clear, flower = (found[f"{who}_{what}_{round_}"] for who in ("masked", "clear", "flower"))
            assert masked.dtype == flower.dtype == np.float32
            assert masked.tobytes() == clear.tobytes() == flower.tobytes(), (what, round_)
    assert found["flower_means_1"].shape[0] == 4
    assert found["flower_model_1"].tobytes() != found["flower_model_3"].tobytes()
