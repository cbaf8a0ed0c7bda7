"""The processes around an app: what they unpack, what they say about it, and whom they talk to."""

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

pytest.importorskip("flwr")

from flwr.app import Error
from flwr.common.config import get_project_dir
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.supercore import telemetry
from flwr.supercore.constant import TaskType
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResultStatus
from flwr.supernode import fleet_http_client, start_client_internal
from flwr.supernode.runtime import run_clientapp

from f2ed import ConfigError
from f2ed.core.errors import Refusal
from f2ed.deployment.certs import operator_certificate
from f2ed.flower import app_process, launcher
from f2ed.flower.bundle import build
from f2ed.flower.executor import AppProcesses
from f2ed.flower.operator_client import with_certificate
from f2ed.flower.replaced import replace
from tests.flower.node_bench import Bench, make_app


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a private, empty folder for an app."""
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("FLWR_HOME", str(place))
    monkeypatch.setenv("F2ED_APP", "")  # and whatever an app process states is gone after the test
    return place


@pytest.fixture
def content(tmp_path):
    return make_app(tmp_path / "app")


def test_the_same_files_give_the_same_bundle_elsewhere_and_at_another_time(tmp_path, content):
    shutil.copytree(tmp_path / "app", tmp_path / "copy")
    for place, path in enumerate(sorted((tmp_path / "copy").rglob("*"))):
        os.utime(path, (place, 10**9 + place))
    (tmp_path / "copy" / "good" / "app.py").chmod(0o755)
    (tmp_path / "copy" / "good" / "__pycache__").mkdir()
    (tmp_path / "copy" / "good" / "__pycache__" / "app.pyc").write_bytes(b"x")
    assert build(tmp_path / "copy") == content


def test_a_folder_that_is_no_app_is_not_built(tmp_path):
    with pytest.raises(ConfigError, match="is not a Flower app that can be built"):
        build(tmp_path)


def test_an_app_is_unpacked_into_an_empty_folder_and_announced(home, content, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    folder = app_process.install(content, skip_prompt=True)
    digest = hashlib.sha256(content).hexdigest()
    assert os.environ["F2ED_APP"] == digest
    assert folder == home / "apps" / f"clinics.good.1.0.0.{digest[:8]}"
    assert app_process._only_installed("clinics/good", "1.0.0", digest) == folder


def test_a_folder_that_is_there_already_is_not_taken_for_the_app(home, content):
    (home / "apps").mkdir()
    with pytest.raises(Refusal, match="holds an app already"):
        app_process.install(content)


@pytest.mark.parametrize(
    "names",
    [("clinics/good", "1.0.0.80b5de1a/../../../evil", "0" * 64), ("clinics/evil", "1.0.0", "0" * 64)],
)
def test_code_from_another_folder_is_not_loaded(home, content, names):
    app_process.install(content)
    try:
        reached = get_project_dir(*names)
    except ValueError:  # Flower itself refuses some.
        return
    assert reached.parent != home / "apps" or not reached.exists()
    with pytest.raises(Refusal, match="not where its app was unpacked"):
        app_process._only_installed(*names)


def test_the_text_of_an_exception_is_replaced_before_it_leaves(monkeypatch):
    for name in ("install_from_fab", "get_project_dir", "Error"):
        monkeypatch.setattr(run_clientapp, name, getattr(run_clientapp, name))
    app_process.prepare()
    found = run_clientapp.Error(code=4, reason="<class 'ValueError'>:<'the patient is called Doe'>")
    assert isinstance(found, Error)
    assert found.code == 4
    assert "Doe" not in found.reason


def test_a_flower_without_a_name_that_is_replaced_is_refused():
    with pytest.raises(ConfigError, match="has no install_apps in"):
        replace(run_clientapp, "install_apps", None)


def test_each_process_has_a_folder_of_its_own_and_its_token_is_not_among_its_arguments(tmp_path, monkeypatch):
    seen = tmp_path / "seen"
    script = (
        f"import os,sys; open({str(seen)!r}, 'a').write(repr((os.environ['FLWR_HOME'], sys.argv, input())) + '\\n')"
    )
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\nexec {sys.executable} -c "$SCRIPT" "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("SCRIPT", script)
    monkeypatch.setattr(sys, "executable", str(fake))
    processes = AppProcesses()
    for number in (1, 2):
        spec = ExecutionSpec(
            TaskType.CLIENT_APP, "127.0.0.1:9", f"token{number}", True, None, False, None, False, number
        )
        assert processes.launch(spec).status == LaunchResultStatus.ACCEPTED
    until = time.monotonic() + 60
    while processes._running and time.monotonic() < until:
        time.sleep(0.05)
        processes.reconcile()
    lines = [eval(line) for line in seen.read_text().splitlines()]  # noqa: S307  written above
    assert sorted(given for _, _, given in lines) == ["token1", "token2"]
    assert not any("token" in word for _, words, _ in lines for word in words)
    homes = {place for place, _, _ in lines}
    assert len(homes) == 2
    assert not any(os.path.exists(place) for place in homes)  # noqa: PTH110  strings


def test_a_process_that_was_killed_is_named_in_the_nodes_log(tmp_path, monkeypatch, caplog):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\nkill -9 $$\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    processes = AppProcesses()
    spec = ExecutionSpec(TaskType.CLIENT_APP, "127.0.0.1:9", "token", True, None, False, None, False, 1)
    with suppress(BrokenPipeError):  # It may end before it was told anything.
        processes.launch(spec)
    until = time.monotonic() + 60
    while processes._running and time.monotonic() < until:
        time.sleep(0.05)
        processes.reconcile()
    assert "the process of the app was killed by signal 9 (SIGKILL) before it answered" in caplog.text
    assert "ran out of memory" in caplog.text


class Server:
    """A server on loopback that answers everything with one status, and counts."""

    def __init__(self, status, **headers):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                outer.requests.append(dict(self.headers))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_):
                pass

        outer, self.requests = self, []
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def redirecting():
    other = Server(200)
    lying = Server(307, Location=f"{other.address}/elsewhere")
    yield lying, other
    lying.close()
    other.close()


def test_a_node_does_not_follow_the_server_to_another_host(tmp_path, redirecting, monkeypatch):
    for place, name in (
        (start_client_internal, "FAB_VERIFICATION_ERROR"),
        (start_client_internal, "http_request_response"),
        (fleet_http_client.FleetHttpClient, "__init__"),
        (telemetry, "FLWR_TELEMETRY_ENABLED"),
    ):
        monkeypatch.setattr(place, name, getattr(place, name))
    lying, other = redirecting
    with fleet_http_client.FleetHttpClient(lying.address) as client:
        client.PullMessages(PullMessagesRequest())
    assert len(other.requests) == 1, "Flower by itself does"
    launcher.guard_flower(Bench(tmp_path).gate())
    with fleet_http_client.FleetHttpClient(lying.address) as client, pytest.raises(httpx.HTTPStatusError):
        client.PullMessages(PullMessagesRequest())
    assert len(other.requests) == 1
    assert len(lying.requests) == 2
    assert telemetry.FLWR_TELEMETRY_ENABLED == "0"


def test_the_operators_certificate_goes_over_tls_and_to_the_named_host_only(tmp_path, monkeypatch):
    monkeypatch.setattr(ControlHttpClient, "__init__", ControlHttpClient.__init__)
    mine = operator_certificate(tmp_path)
    with_certificate(mine.certificate, mine.key)
    with pytest.raises(ConfigError, match="needs TLS"):
        ControlHttpClient("http://127.0.0.1:1")
    with ControlHttpClient("https://127.0.0.1:1", verify=str(mine.ca)) as client:
        assert not client._client.follow_redirects
    with_certificate(mine.certificate, tmp_path / "gone.key")
    with pytest.raises(ConfigError, match="is no certificate to present"):
        ControlHttpClient("https://127.0.0.1:1")


def test_a_node_whose_loop_ends_ends_with_a_failure(tmp_path, monkeypatch):
    """Flower's other threads would keep it alive, and a supervisor would see nothing wrong."""
    bench, ended, atexit = Bench(tmp_path), [], []

    class Ended(Exception):
        pass

    def end(status):
        ended.append(status)
        raise Ended

    def fail():
        raise RuntimeError("a message that cannot be read")

    monkeypatch.setattr(launcher, "check_flower", lambda _: None)
    monkeypatch.setattr(launcher, "guard_flower", lambda _: None)
    monkeypatch.setattr(launcher, "_start_executor", lambda *_: None)
    monkeypatch.setattr(launcher, "_at_the_end", atexit.append)
    monkeypatch.setattr(launcher, "flower_supernode", fail)
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr("atexit._run_exitfuncs", lambda: None)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(os, "environ", dict(os.environ))
    (tmp_path / "ca.crt").write_text("x")
    options = launcher.NodeOptions(bench.roster, bench.authority, bench.identity, "a:1", tmp_path / "ca.crt")
    with pytest.raises(Ended):
        launcher.start(options)
    assert ended == [1]
    assert "--trusted-entities" in sys.argv
    assert os.environ["FLWR_TELEMETRY_ENABLED"] == "0"
    for each in atexit:
        each()


def test_the_process_of_an_app_loads_neither_a_database_nor_the_server():
    code = """
import sys
import f2ed.flower.app_process
from f2ed.flower import protect
print([name for name in ("sqlalchemy", "f2ed.flower.strategy", "torch") if name in sys.modules])
from f2ed.flower import F2ed, BestModel, FinishedRound
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(ImportError, match="cannot import name 'F3ed'"):
        from f2ed.flower import F3ed  # noqa: F401
