"""Real processes with TLS: client nodes, and a mixer and a judge with nodes of their own; the mixer is killed."""

import json
from pathlib import Path

import numpy as np
import pytest

from f2ed.flower.local_deployment import Deployment
from f2ed.flower.trial_roster import TrialHelpers
from f2ed.protocol.helpers import HelpersProtocol
from f2ed.records import read

pytestmark = pytest.mark.nightly
APP = Path(__file__).parent / "helped"
NODES = 6


def settings_of(folder, **more):
    files = {"f2ed-records": "run.jsonl", "f2ed-checkpoint": "model.checkpoint", "f2ed-roster": "roster.json"}
    files |= {"f2ed-server-key": "server/server.key"}
    return {name: str(folder / path) for name, path in files.items()} | more


def check_models(folder):
    """Compare the model after each round with the mean of those that the record says are in the sum."""
    models = json.loads((folder / "run.models").read_text())
    for record in read(folder / "run.jsonl").rounds:
        kept = [client for client, weight in enumerate(record.weights) if weight]
        assert len(kept) == record.crowd
        before, after = (np.array(models[str(record.round + place)]) for place in (0, 1))
        np.testing.assert_allclose(after - before, 0.01 * np.mean([1 + client for client in kept]), atol=1e-4)


def test_rounds_with_helpers_of_other_operators(tmp_path):
    killed = False
    helpers = TrialHelpers(HelpersProtocol(size=3))
    with Deployment(tmp_path, nodes=NODES, shards=NODES // 3, min_crowd=3, app=APP, helpers=helpers) as deployment:
        for line in deployment.run(APP, settings_of(tmp_path, **{"num-rounds": 3})):
            if "f2ed: round 1: model updated" in line and not killed:
                killed = True
                deployment.kill(deployment.helpers["mixer"])
                deployment.start_helper_again("mixer")
    assert killed
    log = read(tmp_path / "run.jsonl")
    assert [each.round for each in log.rounds] == [0, 1, 2]
    assert log.rounds[0].crowd == NODES
    check_models(tmp_path)
