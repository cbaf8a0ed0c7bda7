"""Twelve nodes, a mixer and a judge as real processes with TLS: each is killed at every step, and the run goes on.

A helper stores its state before each answer, so the number of changes of its file says at which step of a round it is.
"""

import os
import random
import signal
import threading
import time

import pytest

from f2ed.core.errors import PeerError
from f2ed.deployment.identity import roster_from
from f2ed.deployment.transparency import Authors, compare_logs
from f2ed.flower.local_deployment import Deployment
from f2ed.flower.trial_roster import TrialHelpers
from f2ed.protocol.helpers import HelpersProtocol
from f2ed.records import read
from tests.real_deployment.test_helped_deployment import APP, check_models, settings_of

pytestmark = pytest.mark.nightly
NODES = int(os.environ.get("F2ED_SOAK_NODES", "12"))
STEPS = {"mixer": 8, "judge": 6}
"""Answers of a helper in a round."""
SEED = int(os.environ.get("F2ED_SOAK_SEED", "0"))
KILLS = int(os.environ.get("F2ED_SOAK_KILLS", "0")) or sum(STEPS.values())
"""All steps of both helpers; fewer are a sample of them."""
PATIENCE = 900.0


class Soak:
    """A run, and the orders to kill: a helper after some step, then a client's node."""

    def __init__(self, deployment, folder, rounds):
        self.deployment, self.folder = deployment, folder
        self.lines, self.failed = [], None
        self._settings = settings_of(folder, **{"num-rounds": rounds, "deadline": 90.0})

    def begin(self):
        """Submit the run; with its checkpoint it continues."""
        self.failed = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        try:
            for line in self.deployment.run(APP, self._settings):
                self.lines.append(line)
        except PeerError as error:
            self.failed = str(error)

    def wait(self, condition, what):
        """Wait for what must come about while the run goes on."""
        until = time.monotonic() + PATIENCE
        while not condition():
            assert self._reader.is_alive(), "\n".join(["the run has ended", *self.lines[-40:]])
            assert time.monotonic() < until, "\n".join([f"no {what}", *self.lines[-40:]])
            time.sleep(0.02)

    def attempts(self):
        """Return how many attempts at rounds have ended."""
        return sum("f2ed: round " in line and ("updated" in line or "SKIPPED" in line) for line in self.lines)

    def kill_helper_at(self, role, step):
        """Kill a helper once it has stored so many answers of the next round, and start it again."""
        (path,) = (self.folder / role / "state").glob("*.helper")
        ended = self.attempts()
        self.wait(lambda: self.attempts() > ended, "round after the one under way")
        seen, changes = path.stat().st_mtime_ns, 0
        until = time.monotonic() + PATIENCE
        while changes <= step:
            assert time.monotonic() < until, f"the {role} has answered {changes} times"
            now = path.stat().st_mtime_ns
            changes, seen = changes + (now != seen), now
            time.sleep(0.002)
        process = self.deployment.helpers[role]
        process.send_signal(signal.SIGKILL)  # Its node ends by itself, and takes its leave.
        process.wait()
        self.deployment.start_helper_again(role)

    def join(self):
        """Wait for the end of the run."""
        self._reader.join(PATIENCE)
        assert not self._reader.is_alive()


def check_logs(folder):
    """The logs of all nodes, both helpers and the server tell one story, but for rounds in which the server died."""
    logs = [*folder.glob("nodes/client_*.state/*.log"), *folder.glob("*/state/*.log"), folder / "run.log"]
    assert len(logs) == NODES + 3
    found = compare_logs(logs, Authors.of([roster_from(folder / "roster.json")])).findings
    assert not [each for each in found if each.serious and each.kind != "unlisted-round"], found


def test_every_process_is_killed_and_the_run_ends_with_all_rounds(tmp_path):
    draw = random.Random(SEED)
    places = [(role, step) for role, steps in STEPS.items() for step in range(steps)]
    chosen = draw.sample(places, min(KILLS, len(places)))
    helpers = TrialHelpers(HelpersProtocol(size=3))
    with Deployment(
        tmp_path, nodes=NODES, shards=NODES // 3, min_crowd=3, app=APP, helpers=helpers, spares=2
    ) as deployment:
        soak = Soak(deployment, tmp_path, rounds=len(chosen) + 6)
        soak.begin()
        soak.wait(lambda: soak.attempts() > 0, "first round")
        for role, step in chosen:
            soak.kill_helper_at(role, step)
        for client in draw.sample(range(NODES), 2):
            deployment.kill(deployment.nodes[client])
            deployment.replace_node(client)
        deployment.kill(deployment.superlink)
        soak.join()
        deployment.start_superlink()
        soak.begin()
        soak.join()
        assert soak.failed is None, "\n".join([soak.failed, *soak.lines[-40:]])
    log = read(tmp_path / "run.jsonl")
    assert [each.round for each in log.rounds] == list(range(log.header.rounds))
    check_models(tmp_path)
    check_logs(tmp_path)
    reasons = [attempt for each in log.rounds for attempt in each.deployed.attempts]
    for reason in reasons:
        assert any(name in reason for name in ("the mixer", "the judge", "clients")), reason
    # A request that was lost with the node of a helper is sent again long before the deadline.
    helpers_late = [each for each in reasons if "gave no" in each and "late: no reply" in each]
    assert not helpers_late, helpers_late
