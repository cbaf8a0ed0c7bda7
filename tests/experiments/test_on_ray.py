"""Grids on a Ray cluster: the same records, also when a worker is killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from f2ed import records
from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.experiments import prepare, read, run_all
from f2ed.experiments.on_ray import run_on_ray
from f2ed.experiments.runner import checkpoint_of, place

FILE = """
title = "Small"
data = "digits"
clients = 6
shards = 2
rounds = 6
estimator = ["mean", "median"]
"""


@pytest.fixture
def grid(tmp_path):
    (tmp_path / "small.toml").write_text(FILE)
    return prepare(read(tmp_path / "small.toml"))


def unchanging(path):
    """Return the rounds of a record without what differs in every run: times."""
    rounds = records.read(path).rounds
    return [(record.round, record.accuracy, record.loss, record.step) for record in rounds]


def workers_running():
    """Return the processes that run a task of ours."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_bytes().startswith(b"ray::_run"):
                    yield int(entry.name)
            except OSError:
                continue


KILLING = """
import os, signal, sys
from pathlib import Path
from tests.experiments.test_on_ray import workers_running
from f2ed.experiments import prepare, read
from f2ed.experiments.on_ray import run_on_ray

cells, loaded = prepare(read(Path("small.toml")))
killed = 0
for event in run_on_ray(cells, Path("there"), loaded=loaded, device="cpu", save_model=True):
    print(event.kind, flush=True)
    if event.kind == "round" and len(event.log.rounds) == 2 and not killed:
        for process in workers_running():
            os.kill(process, signal.SIGKILL)
            killed += 1
print("killed", killed)
print([event.kind for event in run_on_ray(cells, Path("there"), loaded=loaded)])
"""


@pytest.mark.nightly
def test_a_killed_worker_costs_no_round_and_changes_no_record(grid, tmp_path):
    """Ray leaves open files behind, which are no concern of this process: it runs in another."""
    pytest.importorskip("ray")
    cells, loaded = grid
    list(run_all(cells, tmp_path / "here", loaded=loaded))
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    command, environment = [sys.executable, "-c", KILLING], os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *kinds, killed, again = done.stdout.splitlines()
    assert killed != "killed 0"
    assert kinds.count("finished") == 2
    assert kinds.count("began") > 2  # the killed runs began again
    assert again == "['skipped', 'skipped']"
    for cell in cells:
        there = place(cell, tmp_path / "there")
        assert unchanging(there) == unchanging(place(cell, tmp_path / "here"))
        assert there.with_suffix(".safetensors").exists()
        assert not checkpoint_of(there).exists()


def test_without_ray_the_extra_is_named(grid, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"f2ed\[ray\]"):
        list(run_on_ray(grid[0], tmp_path, loaded=grid[1]))


@pytest.mark.parametrize("wrong", [{"runs_per_gpu": 0}, {"cores_per_run": 0}])
def test_shares_below_one_are_refused(grid, tmp_path, wrong):
    with pytest.raises(ConfigError, match="use at least 1 of each"):
        list(run_on_ray(grid[0], tmp_path, loaded=grid[1], **wrong))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--device", "cuda"], "the cluster has no GPU"),
        (["--cores-per-run", "5000"], "a run wants 5000"),
        (["--address", "127.0.0.1:1"], "no Ray cluster at '127.0.0.1:1'"),
    ],
)
def test_a_cluster_that_cannot_do_it_is_named(tmp_path, options, words):
    pytest.importorskip("ray")
    (tmp_path / "small.toml").write_text(FILE)
    command = [sys.executable, "-m", "f2ed.cli", "run", "small.toml", "--engine", "ray", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
