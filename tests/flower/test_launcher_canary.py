"""Fails when another version of Flower has other places where code arrives: look at the launcher again."""

import ast
from pathlib import Path

import flwr
from flwr.supercore.constant import TASK_TYPE_TO_COMMAND, TaskType
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResultStatus

from f2ed.flower.executor import AppProcesses

HOME = Path(flwr.__file__).parent


def calls(name):
    """Return the files of Flower that call a function, and how often."""
    found = {}
    for path in HOME.rglob("*.py"):
        if name not in (text := path.read_text()):
            continue
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
        count = sum(getattr(node.func, "id", getattr(node.func, "attr", "")) == name for node in nodes)
        if count:
            found[path.relative_to(HOME).as_posix()] = count
    return found


def test_apps_are_installed_in_the_known_places_alone():
    assert calls("install_from_fab") == {
        "cli/app_cmd/review.py": 1,  # A person looks at an app of Flower's hub.
        "cli/install.py": 1,
        "compat/client/app.py": 1,  # The client of Flower before SuperNodes, which f2ed node does not start.
        "simulation/app.py": 1,
        "supercore/task_process/agent/run_agentapp.py": 2,  # AgentApps are refused.
        "superlink/runtime/run_serverapp.py": 1,
        "supernode/runtime/run_clientapp.py": 1,
    }


def test_a_supernode_gets_apps_in_one_place_alone():
    found = {path: count for path, count in calls("get_fab").items() if path.startswith("supernode")}
    assert found == {"supernode/start_client_internal.py": 1, "supernode/servicer/runtime/runtime_handlers.py": 1}
    assert calls("_verify_fab") == {"supernode/start_client_internal.py": 1}
    assert calls("store_fab")["supernode/start_client_internal.py"] == 1


def test_the_executor_starts_clientapps_and_no_other_kind_of_task():
    processes = AppProcesses()
    assert processes.get_eligible_capacity(set(TASK_TYPE_TO_COMMAND)) == ({TaskType.CLIENT_APP}, set())
    for kind in set(TASK_TYPE_TO_COMMAND) - {TaskType.CLIENT_APP}:
        spec = ExecutionSpec(kind, "127.0.0.1:1", "token", True, None, False, None, False, 1)
        assert processes.launch(spec).status == LaunchResultStatus.FAILED


def test_the_executor_installs_no_packages():
    spec = ExecutionSpec(TaskType.CLIENT_APP, "127.0.0.1:1", "token", True, None, True, None, False, 1)
    assert AppProcesses().launch(spec).status == LaunchResultStatus.FAILED
