"""The examples run unchanged and show what they claim; every shipped experiment file can be read."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from f2ed.experiments import expand, read

ROOT = Path(__file__).parents[1]


def shown(name):
    done = subprocess.run([sys.executable, ROOT / "examples" / name], check=True, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout


def test_filterl2_has_the_smallest_error():
    errors = {name: float(error) for name, error in re.findall(r"(\w+): off by +([\d.]+)", shown("01_robust_mean.py"))}
    assert errors["FilterL2"] < min(errors["Mean"], errors["Median"], errors["Krum"]) / 100


def test_the_secure_sum_hides_each_client_and_the_robust_mean_rejects_the_malicious():
    output = shown("02_secure_sum.py")
    assert "hidden in a crowd of at least 3" in output
    plain = float(re.search(r"plain mean is off by (\d+\.\d+)", output)[1])
    robust = float(re.search(r"robust one by (\d+\.\d+)", output)[1])
    assert plain > 2 * robust


def test_only_plain_averaging_lets_the_backdoor_in():
    mean, robust = shown("03_simulate.py").split("filter-l2\n")
    assert float(re.findall(r"backdoor success +([\d.]+)%", mean)[-1]) > 80
    assert float(re.findall(r"backdoor success +([\d.]+)%", robust)[-1]) < 5


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda path: path.stem)
def test_every_experiment_file_can_be_read(path):
    assert expand(read(path))
