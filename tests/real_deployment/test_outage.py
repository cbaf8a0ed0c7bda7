"""Real processes: all nodes away for a minute cost no round, and nodes gone for good end the run in the set time."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from f2ed.core.errors import PeerError
from f2ed.flower.local_deployment import Deployment
from f2ed.records import read
from tests.real_deployment.federation import APP, PATIENCE

pytestmark = pytest.mark.nightly

ROUNDS, AWAY = 50, 60.0


def finished(records):
    return len(read(records).rounds) if records.exists() else 0


def until(condition, patience=PATIENCE):
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, f"it did not come about in {patience:g} s"
        time.sleep(0.2)


def settings(deployment, **others):
    files = {"f2ed-records": deployment.folder / "run.jsonl", "f2ed-checkpoint": deployment.folder / "model"}
    given = {"unattended": True, "desk": deployment.folder / "desk", "f2ed-roster": deployment.roster_path}
    return given | files | {"num-rounds": ROUNDS} | others


class Run:
    """A run that was submitted, its log, and how it ended."""

    def __init__(self, deployment, given):
        self.lines, self.error = [], None
        self._thread = threading.Thread(target=self._lead, args=(deployment, given), daemon=True)
        self._thread.start()

    def _lead(self, deployment, given):
        try:
            for line in deployment.run(APP, given):
                self.lines.append(line)
        except PeerError as error:
            self.error = error

    def over(self):
        return not self._thread.is_alive()


def test_all_nodes_stopped_for_a_minute_in_round_3_of_50_cost_no_round(tmp_path):
    with Deployment(tmp_path, nodes=3, shards=1, min_crowd=3, app=APP) as deployment:
        run = Run(deployment, settings(deployment))
        records = tmp_path / "run.jsonl"
        until(lambda: finished(records) >= 2)
        for process in deployment.nodes.values():
            deployment.stop(process)
        time.sleep(AWAY)
        away = finished(records)
        assert away < ROUNDS
        for client in deployment.nodes:
            deployment.start_node_again(client)
        until(run.over, patience=40 * PATIENCE / 10)
    assert run.error is None, "\n".join(run.lines[-40:])
    log = read(records)
    assert log.finished
    assert [record.round for record in log.rounds] == list(range(ROUNDS))
    assert all(record.skipped is None and record.crowd == 3 for record in log.rounds)
    waited = [line for line in run.lines if "f2ed: waiting for" in line]
    assert len(waited) >= 3
    # They come back one after the other, so the last line may name another one.
    assert any("0 of 1 shards can open, 1 are needed; absent: client 0 (client_0): " in line for line in waited)


def test_nodes_gone_for_good_end_the_run_in_the_set_time_with_an_exit_status(tmp_path):
    given = ["-c", "unattended=true", "-c", f'desk="{tmp_path / "desk"}"', "-c", "max-wait=40.0", "-c", "num-rounds=50"]
    command = [sys.executable, "-m", "f2ed.cli", "up", str(APP), "--nodes", "3", "--shards", "1", *given]
    folder = tmp_path / "kept"
    with subprocess.Popen(
        [*command, "--folder", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as up:
        try:
            until(lambda: finished(folder / "run.jsonl") >= 2)
            for pid in nodes_in(folder):
                os.kill(pid, signal.SIGKILL)
            since = time.monotonic()
            printed, _ = up.communicate(timeout=PATIENCE)
        finally:
            up.terminate()
    assert up.returncode == 1, printed
    assert "too few clients for 4" in printed
    assert "with a checkpoint the run continues after round" in printed
    # The SuperLink takes a minute to notice, then the run waits as long as it was told to.
    assert 40 <= time.monotonic() - since < 40 + 240


def nodes_in(folder):
    """Return the SuperNodes whose keys are in a folder."""
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True)  # noqa: S607
    lines = [line.split(maxsplit=1) for line in listed.stdout.splitlines()]
    found = [int(pid) for pid, words in lines if "f2ed.cli node" in words and str(folder) in words]
    assert len(found) == 3
    return found
