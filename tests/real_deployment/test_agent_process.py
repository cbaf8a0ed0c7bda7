"""Real processes: an app of another user completes its part of a round, and reads nothing of its agent or of others."""

import json
import os
import pwd
import shutil
import site
import subprocess
import sys

import msgspec
import pytest

from f2ed.deployment.agent import Agent
from f2ed.flower.launcher import app_command
from f2ed.flower.node_agent import place_for
from f2ed.protocol.secagg.messages import Upload, read_reply
from tests.adversary.agents import APP_HASH, Agents
from tests.adversary.lying_server import VICTIM
from tests.real_deployment.test_app_user import USER, python_for

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may start processes as another user"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not installed"),
]
APP = """
import json, os, sys
import msgspec, numpy as np
from f2ed.deployment.agent import ask_agent
from f2ed.deployment.asked import Asked

def readable(path):
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").close()
        return True
    except PermissionError:
        return False

asked = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Asked)
reply = ask_agent(sys.argv[1], asked, lambda need: np.zeros(40, np.float32))
found = [path for path in sys.argv[2:] if readable(path)]
print(json.dumps({"uid": os.getuid(), "readable": found, "reply": reply.reply.hex()}))
"""

LOOK = """
import json, os, sys, tempfile
from pathlib import Path
from f2ed.flower.fork_server import ForkServer

def readable(path):
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").close()
        return True
    except PermissionError:
        return False

app = "import sys; from f2ed.flower.fork_server import serve; serve(sys.argv[1:]) and exec(sys.stdin.readline())"
server, home = ForkServer([], program=("-c", app)), Path(tempfile.mkdtemp())
server.start()
under_way = server.fork("127.0.0.1:9", home, "import time; time.sleep(600)")
others = [f"/proc/{pid}/{what}" for pid in (server.pid, under_way.pid) for what in ("mem", "environ", "fd")]
code = "import json, os; open('found', 'w').write(json.dumps([each for each in %r if os.access(each, 4)]))" % others
assert server.fork("127.0.0.1:9", home, code).wait() == 0
print(json.dumps([os.getuid(), len(others), json.loads((home / "found").read_text()), list(filter(readable, others))]))
under_way.kill()
under_way.wait()
server.close()
"""


def packages():
    return os.pathsep.join(
        each for each in (*sys.path, *site.getsitepackages()) if "site-packages" in each or "src" in each
    )


def test_an_app_cannot_read_the_process_of_another_app_of_its_user_nor_the_fork_server():
    ran = subprocess.run(
        app_command(USER, [python_for(USER), "-c", LOOK]),
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": packages()},
        cwd="/",
    )
    assert ran.returncode == 0, ran.stderr.decode()[-3000:]
    assert json.loads(ran.stdout) == [pwd.getpwnam(USER).pw_uid, 6, [], []]


def test_an_app_of_another_user_uploads_and_reads_nothing(tmp_path):
    server = Agents(tmp_path)
    place = place_for(USER, None)
    settings = server.settings[VICTIM]
    try:
        agent = Agent(settings, {7: APP_HASH}.get, uid=place.uid)
        agent.listen(place.path, mode=place.mode, owner=place.uid)
        me = f"/proc/{os.getpid()}"
        secrets = [settings["f2ed-key"], settings["f2ed-keys"], f"{me}/mem", f"{me}/environ"]
        for each in (tmp_path, *tmp_path.parents[:2]):
            each.chmod(0o711)  # It is the files that are closed, not the way to them.
        ran = subprocess.run(
            app_command(USER, [python_for(USER), "-c", APP, str(place.path), *secrets]),
            input=msgspec.msgpack.encode(server.described(VICTIM, server.upload_request())),
            capture_output=True,
            check=False,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": packages()},
        )
        assert ran.returncode == 0, ran.stderr.decode()[-3000:]
        report = json.loads(ran.stdout)
        assert (report["uid"], report["readable"]) == (pwd.getpwnam(USER).pw_uid, [])
        read_reply(Upload, bytes.fromhex(report["reply"]), payload=10**6)
    finally:
        shutil.rmtree(place.path.parent)
        server.close()
