"""Real processes: apps that run as another user cannot read the keys of their node, nor its memory."""

import json
import os
import pwd
import shutil
import site
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from f2ed.flower.launcher import app_command
from f2ed.flower.local_deployment import Deployment
from tests.real_deployment.test_pinned_app import NODES, PROBE, submit

USER = "nobody"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may start processes as another user"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not installed"),
]


def python_for(user):
    """Return a Python that a user may execute: this one, or the system's if it has the same version."""
    for each in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        tried = subprocess.run(app_command(user, [each, "-c", ""]), capture_output=True, check=False)
        if tried.returncode == 0:
            return each
    pytest.skip(f"no Python that the user {user} may execute: this one is in a folder that it cannot enter")


@pytest.fixture(scope="module")
def deployment():
    python = python_for(USER)
    packages = [*map(str, sys.path), *site.getsitepackages()]
    with tempfile.TemporaryDirectory(prefix="f2ed-users-") as folder, pytest.MonkeyPatch.context() as patch:
        Path(folder).chmod(0o711)
        patch.setenv(
            "PYTHONPATH", os.pathsep.join(each for each in packages if "site-packages" in each or "src" in each)
        )
        made = Deployment(Path(folder) / "files", nodes=NODES, shards=1, min_crowd=3, app=PROBE)
        (Path(folder) / "files").chmod(0o711)
        made.f2ed = [python, "-m", "f2ed.cli"]
        made.node_options = ["--app-user", USER]
        with made:
            yield made


def test_an_app_of_another_user_reads_none_of_the_nodes_secrets(deployment):
    place = deployment.folder / "marks"
    old = os.umask(0)
    try:
        replies, marks = submit(deployment, PROBE, place)
    finally:
        os.umask(old)
    assert len(marks) == NODES, deployment.log("node_0")[-3000:]
    for reply in replies:
        assert reply["report"]["uid"] == pwd.getpwnam(USER).pw_uid
        assert reply["report"]["readable"] == [], json.dumps(reply)
