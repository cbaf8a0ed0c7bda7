"""Real processes: a SuperLink and six SuperNodes on loopback, with TLS and node authentication.

One deployment serves all tests of this file, in their order: starting it costs more than a round.
"""

import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from f2ed.flower.local import Deployment

APP = Path(__file__).parent / "app"
sys.path.insert(0, str(APP))

from sums.task import change  # noqa: E402  from the app that is deployed

SIZE = 1000
STRANGER = 6


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    with Deployment(tmp_path_factory.mktemp("deployment"), nodes=6, shards=2, crowd=3, strangers=1) as running:
        yield running


class Run:
    """One run of the app, whose lines a test may act upon."""

    def __init__(self, deployment, name, **settings):
        self.deployment = deployment
        self.out = deployment.folder / f"{name}.npy"
        self.audit_path = deployment.folder / f"{name}.jsonl"
        self.lines = []
        self._settings = {
            "f2ed-roster": str(deployment.roster_path),
            "out": str(self.out),
            "f2ed-audit": str(self.audit_path),
            **settings,
        }

    def __iter__(self):
        for line in self.deployment.run(APP, self._settings):
            self.lines.append(line)
            yield line

    def finish(self):
        for _ in self:
            pass
        return self

    @property
    def audit(self):
        return [msgspec.json.decode(line) for line in self.audit_path.read_bytes().splitlines()]

    def ends_at(self, shards_of_each_round):
        """Compare the model with the one computed from those who survived."""
        assert self.out.exists(), "\n".join(self.lines[-40:])
        place = np.zeros(SIZE)
        for round_, shards in enumerate(shards_of_each_round, 1):
            place += np.mean([np.mean([change(c, round_, SIZE) for c in shard], axis=0) for shard in shards], axis=0)
        # A step of the fixed point is 2e-6; rounding errs by less than one in each round.
        np.testing.assert_allclose(np.load(self.out), place, atol=2e-6 * len(shards_of_each_round))


def test_a_node_killed_in_a_run_closes_its_shard_and_no_other(deployment):
    first, second = deployment.roster.plan(0).shards
    run = Run(deployment, "killed", **{"num-rounds": 2, "train-deadline": 45.0})
    for line in run:
        if "f2ed: round 1:" in line:
            deployment.kill(deployment.nodes[first[0]])
    run.ends_at([[first, second], [second]])
    assert [each["opened"] for each in run.audit] == [[0, 1], [1]]
    assert list(run.audit[1]["dropped"]) == [str(first[0])]
    assert all(each["secret"] and each["hidden_among"] == 3 for each in run.audit)


def test_a_node_whose_key_is_not_on_the_roster_took_no_part(deployment):
    # The SuperLink lets it in, the protocol does not.
    assert "f2ed: this node refused: the key client_6.key is not on the roster" in deployment.log(f"node_{STRANGER}")
    assert "leaves masked" not in deployment.log(f"node_{STRANGER}")
    assert "leaves masked" in deployment.log("node_0")


def test_a_server_that_was_killed_goes_on_from_its_checkpoint_and_a_lost_node_comes_back(deployment):
    first, second = deployment.roster.plan(0).shards
    deployment.start_node_again(first[0])
    settings = {"num-rounds": 2, "f2ed-checkpoint": str(deployment.folder / "model.checkpoint")}
    run = Run(deployment, "server", **settings)
    with pytest.raises(Exception, match="flwr run ended"):  # noqa: PT012  the loop is how the log is read
        for line in run:
            if "f2ed: round 1:" in line:
                deployment.kill(deployment.superlink)
    assert not run.out.exists()
    deployment.start_superlink()
    run = Run(deployment, "server", **settings).finish()
    run.ends_at([[first, second]] * 2)
    assert [each["round"] for each in run.audit] == [1, 2]


def test_the_tolerant_mode_works_over_a_network_too(deployment):
    run = Run(deployment, "tolerant", **{"num-rounds": 1, "f2ed-mode": "dropout-tolerant"}).finish()
    run.ends_at([deployment.roster.plan(0).shards])


def test_nothing_of_an_update_is_in_what_the_server_keeps(deployment):
    """Look for four coordinates in a row, of every client and round, as floats and in fixed point."""
    kept = [
        path for path in deployment.folder.rglob("*") if path.is_file() and path.suffix in {".db", ".log", ".db-wal"}
    ]
    assert any(path.name == "superlink.db" for path in kept)
    for path in kept:
        content = path.read_bytes()
        for client in range(6):
            step = change(client, 1, SIZE)[:4]
            for plain in (step, step.astype(np.float64)):
                assert plain.tobytes() not in content, path
