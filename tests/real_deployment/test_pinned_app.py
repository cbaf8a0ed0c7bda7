"""Real processes: a node runs the app that the authority signed, and nothing of any other."""

import json
import shutil
from pathlib import Path

import pytest
from flwr.common.constant import ErrorCode

from f2ed.core.errors import PeerError
from f2ed.deployment.apps import describe
from f2ed.flower.bundle import build
from f2ed.flower.local_deployment import Deployment
from f2ed.flower.pinning import REFUSED

PROBE = Path(__file__).parent / "probe"
NODES = 3


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pinned")
    stale(folder)
    with Deployment(folder, nodes=NODES, shards=1, min_crowd=3, app=PROBE) as running:
        yield running


def stale(folder):
    """Leave other code where Flower looks for an app that it has installed before, by eight digits of its hash."""
    digest = describe(build(PROBE)).app.sha256.hex()
    place = folder / "flwr" / "apps" / f"f2ed.probe.1.0.0.{digest[:8]}"
    shutil.copytree(PROBE, place)
    code = place / "probe" / "client_app.py"
    code.write_text(code.read_text().replace('MARK = "approved"', 'MARK = "stale"'))


def submit(deployment, app, folder, **settings):
    """Run an app; return the replies that the ServerApp got, and the marks that ClientApps left."""
    folder.mkdir()
    for _ in deployment.run(
        app, {"folder": str(folder), "nodes": NODES, "keys": str(deployment.folder / "nodes")} | settings
    ):
        pass
    return json.loads((folder / "replies.json").read_text()), sorted(
        each.name for each in folder.iterdir() if each.name != "replies.json"
    )


def changed(folder, old, new):
    """Return an app that differs in a few bytes."""
    shutil.copytree(PROBE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    code = folder / "probe" / "client_app.py"
    assert old in code.read_text()
    code.write_text(code.read_text().replace(old, new))
    return folder


REFUSALS = [{"code": ErrorCode.INVALID_FAB, "reason": REFUSED.reason}] * NODES


def test_the_approved_app_runs_from_its_own_bytes_and_knows_its_hash(deployment, tmp_path):
    replies, marks = submit(deployment, PROBE, tmp_path / "approved")
    assert marks == [f"approved.{node}" for node in range(NODES)], "not the code that was left in FLWR_HOME"
    digest = describe(build(PROBE)).app.sha256.hex()
    assert {(tmp_path / "approved" / mark).read_text() for mark in marks} == {digest}
    for reply in replies:
        report = reply["report"]
        assert report["home"] != str(deployment.folder / "flwr")
        assert {"FLWR_HOME", "PATH", "F2ED_APP"} <= set(report["variables"])
        assert "node key" in report["readable"], "with one user for both; see test_app_user"
        assert not any("token" in word for word in report["arguments"]), "others on the machine see arguments"


def test_one_changed_byte_is_refused_and_nothing_of_it_runs(deployment, tmp_path):
    app = changed(tmp_path / "app", 'MARK = "approved"', 'MARK = "approveD"')
    assert submit(deployment, app, tmp_path / "run") == (REFUSALS, [])
    assert "is not approved" in deployment.log("node_0")


@pytest.mark.nightly
def test_the_text_of_an_error_does_not_leave_the_node(deployment, tmp_path):
    replies, marks = submit(deployment, PROBE, tmp_path / "failed", order="fail")
    assert len(marks) == NODES
    assert [reply["code"] for reply in replies] == [ErrorCode.CLIENT_APP_RAISED_EXCEPTION] * NODES
    assert "Doe" not in json.dumps(replies)
    assert "Doe" in deployment.log("node_0")


@pytest.mark.nightly
def test_a_strangers_app_runs_once_it_is_approved_and_no_longer_once_it_is_revoked(deployment, tmp_path):
    app = changed(tmp_path / "app", 'MARK = "approved"', 'MARK = "stranger"')
    assert submit(deployment, app, tmp_path / "before") == (REFUSALS, [])
    deployment.approve(PROBE, app)
    assert submit(deployment, app, tmp_path / "while")[1] == [f"stranger.{node}" for node in range(NODES)]
    deployment.approve(PROBE)
    assert submit(deployment, app, tmp_path / "after") == (REFUSALS, [])


@pytest.mark.nightly
def test_a_run_whose_serverapp_fails_is_reported_as_failed(deployment, tmp_path):
    with pytest.raises(PeerError, match="ended as failed"):
        list(deployment.run(PROBE, {"folder": str(tmp_path / "missing"), "nodes": 0}))
