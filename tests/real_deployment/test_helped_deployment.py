"""Real processes with TLS: client nodes, and a mixer and a judge as SuperNodes with `f2ed helper` beside them."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from f2ed.deployment.keyfiles import read_private, read_secret, write_pair
from f2ed.deployment.roster import HelperEntry, Helpers, SignedEncoding, countersigned, revised, signed, write_roster
from f2ed.flower.local_deployment import Deployment
from f2ed.flower.processes import tool
from f2ed.protocol.aggregation import Buffers
from f2ed.protocol.helpers import HelpersProtocol
from f2ed.protocol.primitives.crypto import public_key

pytestmark = pytest.mark.nightly
APP = Path(__file__).parent / "helped"
NODES = 6
ROLES = {NODES: "mixer", NODES + 1: "judge"}


class HelpedDeployment(Deployment):
    """The last two nodes are those of helpers: plain ones, whose app carries bytes."""

    def __init__(self, folder):
        super().__init__(folder, nodes=NODES, shards=NODES // 3, min_crowd=3, app=APP, strangers=2)
        self.daemons = {}
        keys = {role: os.urandom(32) for role in ("server", "mixer", "judge")}
        for role, key in keys.items():
            write_pair(folder / f"{role}.key", key)
        parties = tuple(
            HelperEntry(role, f"operator of the {role}", public_key(keys[role])) for role in ("judge", "mixer")
        )
        settings = HelpersProtocol(size=3)
        draft = revised(
            self.roster,
            helpers=Helpers(operator="operator of the server", parties=parties, settings=settings),
            server=public_key(keys["server"]),
            encoding=SignedEncoding(clip_norm=10.0),
            buffers=Buffers(policy="keep"),
        )
        secret = read_secret(folder / "authority.chain")
        made = signed(draft, read_private(folder / "authority.key"), shards=NODES // 3, min_crowd=3, seed=secret)
        self.roster = countersigned(countersigned(made, keys["mixer"]), keys["judge"])
        write_roster(self.roster_path, self.roster)

    def start_node(self, client, *, settings=None):
        if client not in ROLES:
            super().start_node(client, settings=settings)
            return
        role = ROLES[client]
        self.serve(role, "--first")
        self.nodes[client] = self.start_process(
            f"node_{client}",
            [
                *tool("flower-supernode"),
                *("--superlink", self.node_address, "--root-certificates", str(self.tls.ca)),
                *("--auth-supernode-private-key", str(self.folder / "nodes" / f"node_{client}")),
                *("--port", str(next(self.ports)), "--node-config", f'f2ed-helper="{self.folder / role}.sock"'),
            ],
        )

    def serve(self, role, *more):
        """Start a helper's process."""
        self.daemons[role] = self.start_process(
            role,
            [
                *(*self.f2ed, "helper", "--role", role, "--key", str(self.folder / f"{role}.key")),
                *("--roster", str(self.roster_path), "--authority", str(self.folder / "authority.pub")),
                *("--socket", str(self.folder / f"{role}.sock"), *more),
            ],
        )


def test_rounds_with_helpers_of_other_operators(tmp_path):
    report = tmp_path / "report.json"
    given = {"f2ed-roster": str(tmp_path / "roster.json"), "server-key": str(tmp_path / "server.key")}
    given |= {"nodes": NODES + 2, "num-rounds": 3, "report": str(report)}
    with HelpedDeployment(tmp_path) as deployment:
        killed = False
        for line in deployment.run(APP, given):
            if "round 1 (number 0): the mean of" in line and not killed:
                killed = True
                deployment.daemons["mixer"].send_signal(signal.SIGKILL)
                deployment.daemons["mixer"].wait()
                time.sleep(1.0)
                deployment.serve("mixer")
    found = json.loads(report.read_text())
    assert killed
    opened = [each for each in found["ended"] if each["aborted"] is None]
    assert all(each["kept"] == list(range(NODES)) for each in opened)
    assert len(opened) >= 2, found
    mean = 0.01 * np.mean(np.arange(1, NODES + 1))
    np.testing.assert_allclose(found["x"], len(opened) * mean, atol=1e-4)
