"""`f2ed helper` as a process: how it starts, and what a kill at any step leaves."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from f2ed.cli.helper import helper
from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.helper_agent import HelperAgent, carry
from f2ed.deployment.keyfiles import write_pair
from tests.deployment.test_helper_agent import KEYS, Helped

ROOT = Path(__file__).parents[2]


class Served(Helped):
    """Helpers as processes."""

    def __init__(self, folder):
        super().__init__(folder)
        self.processes, self.answered, self.kill_at = {}, 0, None
        for role, key in KEYS.items():
            write_pair(folder / f"{role}.key", key)
            self.serve(role, "--first")

    def options(self, role):
        stated = {"key": f"{role}.key", "roster": "roster.json", "authority": "authority.pub"}
        return {"role": role, "socket": f"{role}.sock", "state": role} | stated

    def serve(self, role, *more):
        path = self.folder / f"{role}.sock"
        path.unlink(missing_ok=True)
        words = [word for name, value in self.options(role).items() for word in (f"--{name}", value)]
        self.processes[role] = subprocess.Popen(
            [sys.executable, "-m", "f2ed.cli", "helper", *words, *more],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.DEVNULL,
        )
        until = time.monotonic() + 60
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.1)

    def ask(self, role, run, request):
        reply = carry(str(self.folder / f"{role}.sock"), run, request)
        self.answered += 1
        if self.answered == self.kill_at:  # The reply is lost with the process, so the server asks again.
            self.processes[role].send_signal(signal.SIGKILL)
            self.processes[role].wait()
            self.serve(role)
            again = carry(str(self.folder / f"{role}.sock"), run, request)
            assert again == reply
        return reply.reply


@pytest.mark.nightly
def test_a_helper_that_is_killed_after_any_answer_gives_it_again(tmp_path):
    it = Served(tmp_path)
    try:
        assert it.run(0).mean is not None
        steps = it.answered
        for step in range(1, steps + 1):
            it.answered, it.kill_at = 0, step
            outcome = it.run(step)
            assert outcome.mean is not None, (step, outcome.aborted)
    finally:
        for process in it.processes.values():
            process.kill()
            process.wait()


@pytest.fixture
def stated(tmp_path, monkeypatch):
    """Return the options of a mixer that may start, in whose folder the test runs."""
    Helped(tmp_path)
    write_pair(tmp_path / "mixer.key", KEYS["mixer"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("f2ed.cli.helper.forbid_dumps", lambda: True)
    monkeypatch.setattr("f2ed.deployment.helper_agent.key_folder", lambda state: state / "rounds")
    names = {"key": "mixer.key", "roster": "roster.json", "authority": "authority.pub", "socket": "mixer.sock"}
    return {"role": "mixer"} | {name: Path(path) for name, path in names.items()}


def test_it_starts_with_a_memory_alone(stated):
    with pytest.raises(ConfigError, match=r"this mixer has no memory in mixer\.state/mixer-\w{32}\.helper"):
        helper(**stated)
    assert not Path("mixer.sock").exists()


def test_a_role_that_the_key_does_not_have_is_refused(stated):
    with pytest.raises(ConfigError, match="names another key for the judge"):
        helper(**stated | {"role": "judge"}, first=True)


def test_an_unknown_user_is_refused(stated):
    with pytest.raises(ConfigError, match="there is no user nobody-here"):
        helper(**stated, user="nobody-here", first=True)


def test_a_superlink_without_its_certificate_is_refused(stated):
    with pytest.raises(ConfigError, match="--superlink without --root-certificates"):
        helper(**stated, superlink="127.0.0.1:1", first=True)


def test_it_ends_with_its_node(stated, monkeypatch):
    pytest.importorskip("flwr")
    started = []

    class Ended:
        def __init__(self, command, **settings):
            started.append((command, settings["stdin"]))

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def wait(self):
            return 3

    monkeypatch.setattr(HelperAgent, "listen", lambda *_given, **_named: None)
    monkeypatch.setattr(subprocess, "Popen", Ended)
    with pytest.raises(PeerError, match="the node of this mixer ended with status 3"):
        helper(**stated, superlink="127.0.0.1:1", root_certificates=Path("ca.crt"), port=7, first=True)
    ((command, stdin),) = started
    assert command[-4:] == ["127.0.0.1:1", str(Path("ca.crt").resolve()), str(Path("mixer.sock").resolve()), "7"]
    assert stdin == subprocess.PIPE


def test_it_says_what_its_node_needs(stated, capsys, monkeypatch):
    listened = []
    monkeypatch.setattr(HelperAgent, "listen", lambda *given, **named: listened.append((given[1], named["mode"])))
    monkeypatch.setattr("threading.Event.wait", lambda *_: None)
    helper(**stated, first=True)
    assert listened == [(Path("mixer.sock"), 0o600)]
    assert "The mixer of 'clinics', serial 1, listens. Its node needs --node-config 'f2ed-helper=" in (
        capsys.readouterr().out
    )
