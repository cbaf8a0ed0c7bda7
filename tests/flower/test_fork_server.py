"""A real fork server: what it forks is as new as a process that was started, and what fails is told and survived."""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("flwr")
if sys.platform != "linux":
    pytest.skip("processes are forked on Linux only", allow_module_level=True)

from flwr.supercore.constant import TaskType
from flwr.supercore.superexec.executor import ExecutionSpec

from f2ed import ConfigError
from f2ed.flower import fork_server
from f2ed.flower.executor import AppProcesses
from f2ed.flower.fork_server import ForkServer, reap_orphans
from f2ed.flower.preload import modules_to_preload

OBEY = """
import sys
from f2ed.flower.fork_server import serve
if serve(sys.argv[1:]):
    exec(sys.stdin.readline())
"""
"""In place of an app's process: it executes its token."""
PATIENCE = 60.0


@pytest.fixture(autouse=True, scope="module")
def _adopting():
    """Let this process adopt orphans during these tests only."""
    yield
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


@pytest.fixture
def start():
    """Start servers whose processes do what they are told, and end them."""
    started = []

    def begin(*modules):
        server = ForkServer(modules, program=("-c", OBEY))
        started.append(server)
        server.start()
        return server

    yield begin
    for each in started:
        each.close()
    reap_orphans([])


@pytest.fixture(scope="module")
def server():
    one = ForkServer([], program=("-c", OBEY))
    one.start()
    yield one
    one.close()


@pytest.fixture
def tell(server, tmp_path):
    """Return what a forked process makes of an expression."""
    homes = iter(range(100))

    def ask(expression, *, imports="os, sys", of=server):
        home = tmp_path / str(next(homes))
        home.mkdir()
        code = f"import json, {imports}; open('told', 'w').write(json.dumps({expression}))"
        assert of.fork("127.0.0.1:9", home, code).wait() == 0
        return json.loads((home / "told").read_text())

    return ask


def until(condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_forked_process_has_a_folder_arguments_and_a_parent_as_if_it_had_been_started(tell):
    home, cwd, words, parent = tell("[os.environ['FLWR_HOME'], os.getcwd(), sys.argv[1:], os.getppid()]")
    assert home == cwd
    assert Path(home, "told").exists()
    assert words == ["127.0.0.1:9", str(os.getpid())]
    assert parent == os.getpid()


def test_two_forked_processes_share_no_random_numbers(start, tell):
    torch = ["torch"] if find_spec("torch") else []
    keys = "cryptography.hazmat.primitives.asymmetric.x25519"
    warm = start("random", "secrets", "ssl", keys, *torch)
    drawn = [
        tell(
            "[random.random(), numpy.random.rand(), secrets.token_hex(8), ssl.RAND_bytes(8).hex(), uuid.uuid4().hex,"
            " multiprocessing.current_process().authkey.hex(),"
            f" sys.modules['{keys}'].X25519PrivateKey.generate().private_bytes_raw().hex()"
            f"{', torch.rand(1).item()' if torch else ''}]",
            imports=", ".join(["sys, random, numpy, secrets, ssl, uuid, multiprocessing", *torch]),
            of=warm,
        )
        for _ in range(2)
    ]
    assert len(drawn[0]) == 7 + len(torch)
    assert not set(drawn[0]) & set(drawn[1])


def test_what_an_app_imports_and_sets_does_not_reach_the_server_nor_the_next_process(tell, tmp_path):
    app = tmp_path / "app"
    app.mkdir()
    (app / "clinic_app.py").write_text("import json; json.patched = True\n")
    load = f"[sys.path.insert(0, {str(app)!r}), __import__('clinic_app'), os.environ.update(LEFT='x'), json.patched][3]"
    assert tell(load) is True
    assert tell("['clinic_app' in sys.modules, hasattr(json, 'patched'), 'LEFT' in os.environ]") == [False] * 3


def test_a_process_holds_no_descriptor_of_its_sibling_nor_of_the_server(server, tell, tmp_path):
    sibling = server.fork("127.0.0.1:9", tmp_path, "import time; time.sleep(600)")
    try:
        open_ = "sorted({os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if int(n) > 2"
        open_ += " and os.path.exists(f'/proc/self/fd/{n}')} - {os.path.realpath('told')})"
        assert tell(open_) == []
        assert tell("[os.readlink('/proc/self/fd/0')[:5], sys.stdin.read()]") == ["pipe:", ""]
    finally:
        sibling.kill()
    assert sibling.wait() == -signal.SIGKILL


def test_neither_the_server_nor_a_process_of_an_app_can_be_read_by_others_of_its_user(tell):
    assert tell("ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)", imports="ctypes") == 0


def test_a_process_of_an_app_that_is_started_anew_cannot_be_read_either():
    code = (
        "import ctypes, sys, f2ed.flower.app_process as p; sys.argv = ['', 'a', '1']\n"
        "prctl = ctypes.CDLL(None).prctl\n"
        "p.run_clientapp.run_clientapp = lambda **given: print(given['token'], prctl(3, 0, 0, 0, 0))\n"
        "p.main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], input="it\n", capture_output=True, text=True, check=True)
    assert ran.stdout == "it 0\n"
    ran = subprocess.run([sys.executable, "-c", code], input="", capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "the executor named no task" in ran.stderr


def test_signals_threads_and_exit_handlers_work_in_a_forked_process(server, tmp_path):
    code = (
        "import atexit, signal, threading; assert signal.getsignal(2) is signal.default_int_handler; "
        "assert signal.getsignal(15) is signal.SIG_DFL; "
        "threading.Thread(target=lambda: open('thread', 'w')).start(); atexit.register(open, 'exit', 'w'); sys.exit(7)"
    )
    assert server.fork("127.0.0.1:9", tmp_path, code).wait() == 7
    assert {each.name for each in tmp_path.iterdir()} == {"thread", "exit"}


def test_libraries_with_threads_of_their_own_compute_in_a_forked_process(start, tell):
    pytest.importorskip("torch")
    one = (
        "[float((numpy.ones((800, 800)) @ numpy.ones((800, 800)))[0, 0]), (torch.ones(800, 800) @ torch.ones(800, 800))"
    )
    one += "[0, 0].item(), torch.get_num_threads()]"
    warm = start("torch")
    *found, threads = tell(one, imports="numpy, torch", of=warm)
    assert found == [800.0, 800.0]
    cold = subprocess.run(
        [sys.executable, "-c", "import numpy, torch; print(torch.get_num_threads())"], capture_output=True, check=True
    )
    assert threads == int(cold.stdout)


def test_forked_processes_call_over_grpc_on_one_channel_and_on_a_second(tell):
    grpc = pytest.importorskip("grpc")
    from concurrent.futures import ThreadPoolExecutor

    serving = grpc.server(ThreadPoolExecutor(2))
    echo = grpc.unary_unary_rpc_method_handler(lambda request, _: request + b"!")
    serving.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Echo", {"Say": echo})])
    port = serving.add_insecure_port("127.0.0.1:0")
    serving.start()
    try:
        channel = f"grpc.insecure_channel('127.0.0.1:{port}').unary_unary('/Echo/Say')"
        for _ in range(2):
            said = tell(
                f"(lambda say: [say(b'a').decode(), say(b'b').decode(), {channel}(b'c').decode()])({channel})",
                imports="grpc",
            )
            assert said == ["a!", "b!", "c!"]
    finally:
        serving.stop(0)


def spec(token):
    return ExecutionSpec(TaskType.CLIENT_APP, "127.0.0.1:9", token, True, None, False, None, False, 1)


def test_a_forked_process_that_was_killed_is_named_in_the_nodes_log_and_its_folder_removed(start, caplog):
    processes = AppProcesses(start())
    processes.launch(spec("import os; os.kill(os.getpid(), 9)"))
    ((process, home),) = processes._running
    until(lambda: processes.reconcile() or not processes._running)
    assert process.returncode == -signal.SIGKILL
    assert "the process of the app was killed by signal 9 (SIGKILL) before it answered" in caplog.text
    assert "ran out of memory" in caplog.text
    assert not home.exists()


def test_what_an_app_left_running_is_reaped_when_it_ends(start):
    processes = AppProcesses(start())
    code = "import os, time; left = os.fork(); left and open('left', 'w').write(str(left)); left or time.sleep(1)"
    processes.launch(spec(code))
    ((_, home),) = processes._running
    left = int(until(lambda: (home / "left").exists() and (home / "left").read_text()))
    until(lambda: processes.reconcile() or (not processes._running and not Path(f"/proc/{left}").exists()))


def test_processes_are_ended_with_the_executor(start):
    server = start()
    processes = AppProcesses(server)
    processes.launch(spec("import time; time.sleep(600)"))
    ((process, home),) = processes._running
    pid = server.pid
    processes.close()
    assert gone(process.pid)
    assert gone(pid)
    assert not home.exists()


def test_a_server_that_was_killed_is_replaced_and_its_processes_go_on(start, tell, tmp_path, caplog):
    server = start()
    first, under_way = server.pid, server.fork("127.0.0.1:9", tmp_path, "import time; time.sleep(600)")
    os.kill(first, signal.SIGKILL)
    until(lambda: gone(first))
    assert under_way.poll() is None
    server.keep_running()
    assert "the fork server has ended (status -9); starting another" in caplog.text
    assert server.pid != first
    assert tell("1", of=server) == 1
    under_way.kill()
    assert under_way.wait() == -signal.SIGKILL


def test_a_message_that_comes_before_a_killed_server_is_replaced_gets_a_process_of_its_own(
    start, tmp_path, monkeypatch
):
    server = start()
    processes = AppProcesses(server)
    os.kill(server.pid, signal.SIGKILL)
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\ncat > {tmp_path}/token\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    processes.launch(spec("the task"))
    assert isinstance(processes._running[0][0], subprocess.Popen)
    assert processes._running[0][0].wait() == 0
    assert (tmp_path / "token").read_text() == "the task\n"
    monkeypatch.undo()
    processes.reconcile()
    assert server.fork("127.0.0.1:9", tmp_path, "sys.exit(5)").wait() == 5


def test_a_server_that_hangs_is_ended_and_what_it_forks_without_a_token_does_nothing(start, tmp_path, monkeypatch):
    monkeypatch.setattr(fork_server, "_PATIENCE", 30.0)
    server = start()
    server._control.settimeout(0.2)
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    assert server.fork("127.0.0.1:9", tmp_path, "open('done', 'w')") is None
    assert gone(pid)
    server.keep_running()
    assert server.pid != pid
    assert server.fork("127.0.0.1:9", tmp_path, "sys.exit(5)").wait() == 5
    assert not (tmp_path / "done").exists()


def test_the_server_ends_when_its_executor_is_killed():
    code = """
import time
from f2ed.flower.fork_server import ForkServer
server = ForkServer([])
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as executor:
        pid = int(executor.stdout.readline())
        assert not gone(pid)
        executor.kill()
    until(lambda: gone(pid))
    reap_orphans([])


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ValueError('a line\\nand another')", r"broken cannot be imported \(ValueError: a line and another\)"),
        ("raise SystemExit('no licence')", r"broken cannot be imported \(SystemExit: no licence\)"),
        (
            "import threading, time; threading.Thread(target=time.sleep, args=[99], daemon=True).start()",
            "importing broken started a thread",
        ),
        (
            "import _thread, time; _thread.start_new_thread(time.sleep, (99,))",
            "importing broken started a native thread",
        ),
        ("import os; os.kill(os.getpid(), 9)", "its process ended at once"),
    ],
    ids=["error", "exit", "thread", "native thread", "killed"],
)
def test_a_module_that_cannot_be_preloaded_is_named_and_processes_start_anew(
    start, code, message, tmp_path, monkeypatch, caplog
):
    (tmp_path / "broken.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    server = start("broken")
    assert caplog.text.count("without a fork server") == 1
    assert re.search(message, caplog.text)
    assert server.pid is None
    assert server.fork("127.0.0.1:9", tmp_path, "x") is None
    server.keep_running()
    assert server.pid is None


def test_a_module_that_used_cuda_is_not_forked_from(start, tmp_path, monkeypatch, caplog):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("from . import cuda\n")
    (tmp_path / "torch" / "cuda.py").write_text("_is_in_bad_fork = lambda: True\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert start("torch").pid is None
    assert "importing torch used CUDA, which forked processes could not use again" in caplog.text


def test_a_system_that_lets_nobody_adopt_processes_has_no_server(start, monkeypatch, caplog):
    class Refusing:
        def prctl(self, *_):
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Refusing())
    assert start().pid is None
    assert "this system lets no process adopt another" in caplog.text


@pytest.mark.parametrize("text", ["no_such_module", "torch,,numpy", "", "../evil", "os;evil", "numpy, no_such"])
def test_a_module_that_is_not_installed_is_refused_by_name(text):
    with pytest.raises(ConfigError, match="which is not installed; give names of modules"):
        modules_to_preload(text)


def test_modules_are_named_by_the_operator_or_torch_is_taken_where_it_is_installed(monkeypatch):
    assert modules_to_preload("none") is None
    assert modules_to_preload("json, xml.dom") == ["json", "xml.dom"]
    monkeypatch.setattr("f2ed.flower.preload.find_spec", lambda name: name == "torch")
    assert modules_to_preload("auto") == ["torch"]
    monkeypatch.setattr("f2ed.flower.preload.find_spec", lambda _: None)
    assert modules_to_preload("auto") == []


def test_only_linux_forks(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert modules_to_preload("auto") is None
    with pytest.raises(ConfigError, match="forked on Linux only"):
        modules_to_preload("json")
