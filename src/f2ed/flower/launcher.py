"""Starts a SuperNode that runs approved apps only, and the process that runs them.

The SuperNode is Flower's own, in this process, with its `--trusted-entities` check fed from the signed roster (see
`f2ed.flower.pinning`). Apps run in processes of their own (`f2ed.flower.executor`), with few environment variables, and
as another user where the node's operator says so. They ask the agent in this process for all that takes a key.
"""

import atexit
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from logging import getLogger
from pathlib import Path
from typing import Any, NamedTuple

from flwr.supercore import telemetry
from flwr.supercore.exit import ExitCode, add_exit_handler
from flwr.supercore.exit import exit as exit_
from flwr.supercore.exit.exit_code import EXIT_CODE_HELP
from flwr.supernode import fleet_http_client, start_client_internal
from flwr.supernode.cli import flower_supernode
from flwr.supernode.fleet_http_connection import http_request_response

from f2ed.core.errors import ConfigError
from f2ed.core.files import write_atomic
from f2ed.deployment.agent import AGENT
from f2ed.deployment.agent.listener import user_id
from f2ed.deployment.apps import is_unpinned
from f2ed.deployment.doctor.watch import ConnectionWatch
from f2ed.deployment.keyfiles import read_private
from f2ed.deployment.roster import Roster
from f2ed.flower.node_agent import OURS, Place, place_for, split_settings, start_agent
from f2ed.flower.pinning import REFUSED, Gate
from f2ed.flower.preload import AUTO, modules_to_preload
from f2ed.flower.processes import HOST
from f2ed.flower.replaced import replace
from f2ed.flower.selftest import check_flower
from f2ed.flower.unsent_replies import catch_up

__all__ = [
    "QUIET",
    "NodeOptions",
    "agent_settings",
    "announce",
    "app_command",
    "app_environment",
    "check_options",
    "guard_flower",
    "quiet_flower",
    "start",
]

_log = getLogger("f2ed.flower")

_FURTHER = ("--max-retries", "--max-wait-time")
"""Options of `flower-supernode` that may be given. All others are set here, or weaken the node."""
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
"""Environment variables with which Flower reaches no other host than the SuperLink."""
_PASSED = (
    *("PATH", "PYTHONPATH", "PYTHONUNBUFFERED", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"),
    *("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
)
"""Environment variables that an app gets. Others may hold secrets of the node."""
_GRACE = 5.0
_REJECTED = (
    "The SuperLink did not admit this node. If its last process was killed, the SuperLink takes it for connected for "
    "about a minute more: start it again then, as a supervisor does. If not: is its key registered (flwr supernode "
    "register), and are both clocks right? f2ed doctor node tells."
)


class NodeOptions(NamedTuple):
    """How a node is started."""

    roster: Path
    authority: Path
    key: Path
    superlink: str
    root_certificates: Path
    auth_key: Path | None = None
    """The key with which the SuperNode authenticates to the SuperLink."""
    port: int = 9094
    """Of the API on loopback through which apps get their messages."""
    node_config: str = ""
    """Further settings of the node."""
    app_user: str = ""
    """Who runs the apps, and whom the agent answers; by default the node's own user."""
    app_secret: Path | None = None
    """Where to write the secret for an executor that somebody else starts; by default the node starts its own."""
    app_variables: Sequence[str] = ()
    """Names of further environment variables that the apps get."""
    preload: str = AUTO
    """Modules that the processes of apps find imported."""
    further: Sequence[str] = ()
    """Further options of `flower-supernode`."""


def start(options: NodeOptions) -> None:
    """Run the node until it is stopped. Raise `ConfigError` instead of starting one that would run a stranger's app."""
    check_options(options)
    settings = agent_settings(options)
    # At once, and not with the first message: the right key, and the passphrase of an encrypted one.
    read_private(options.key, str(settings.get("f2ed-passphrase", "")))
    gate = Gate(settings)
    guard_flower(gate)
    check_flower(gate)
    announce(gate.roster())
    home = Path(tempfile.mkdtemp(prefix="f2ed-node-"))
    _at_the_end(lambda: shutil.rmtree(home, ignore_errors=True))
    trusted, secret = home / "trusted.yaml", os.urandom(32)
    write_atomic(trusted, json.dumps(gate.trusted).encode())  # JSON is YAML.
    write_atomic(home / "secret", secret)
    place = place_for(options.app_user, options.app_secret)
    _at_the_end(lambda: _remove(place, options))
    start_agent(place, gate, settings)
    os.environ |= {"FLWR_HOME": str(home), **QUIET}
    if options.app_secret is None:
        _start_executor(options, secret)
    else:
        write_atomic(options.app_secret, secret, mode=0o640)
    ConnectionWatch(options.superlink, options.root_certificates).start(threading.Event())
    sys.argv = ["flower-supernode", *_arguments(options, trusted, home / "secret", place.path)]
    try:
        flower_supernode()
    except Exception as error:  # noqa: BLE001  Flower's HTTP thread would keep a node alive that does nothing
        _log.error("f2ed: the SuperNode failed", exc_info=error)
    _end("the SuperNode's loop has ended")


def check_options(options: NodeOptions) -> None:
    """Refuse options that would weaken the node, under any of the spellings that Flower understands."""
    for option in options.further:
        name = option.partition("=")[0]
        if name.startswith("-") and name not in _FURTHER:
            raise ConfigError(
                f"the option {name} is not passed on to flower-supernode: f2ed node sets what is needed, and of the "
                f"others some let a server run any code; it passes on {' and '.join(_FURTHER)}"
            )
    if not 0 < options.port < 65536:
        raise ConfigError(f"invalid port {options.port}; choose one from 1 to 65535")
    split_settings(options.node_config)
    modules_to_preload(options.preload)
    if options.preload != AUTO and options.app_secret is not None:
        raise ConfigError("with --app-secret this node starts no apps; give --preload to f2ed executor instead")
    if not options.roster.exists():
        raise ConfigError(f"{options.roster} is neither a file nor a folder with all serials; see f2ed node --help")
    for path in (options.authority, options.key, options.root_certificates, options.auth_key):
        if path is not None and not path.is_file():
            raise ConfigError(f"{path} is not a file; see f2ed node --help")


def guard_flower(gate: Gate) -> None:
    """Put the gate into this process's Flower, and turn off what reaches other hosts."""
    quiet_flower()
    replace(start_client_internal, "FAB_VERIFICATION_ERROR", REFUSED)
    replace(start_client_internal, "http_request_response", gate.guard(http_request_response))


def quiet_flower() -> None:
    """Turn off what reaches other hosts in this process's Flower, and mend what leaves a node silent."""
    replace(telemetry, "FLWR_TELEMETRY_ENABLED", "0")
    replace(exit_, "EXIT_CODE_HELP", EXIT_CODE_HELP | {ExitCode.SUPERNODE_CONNECTION_ERROR: _REJECTED})
    catch_up()
    connect = fleet_http_client.FleetHttpClient.__init__

    def without_redirects(self: Any, *args: Any, **settings: Any) -> None:
        connect(self, *args, **settings)
        replace(self._client, "follow_redirects", False)

    replace(fleet_http_client.FleetHttpClient, "__init__", without_redirects)


def announce(roster: Roster) -> None:
    """Log which apps may run, and which risks the roster takes."""
    apps = ", ".join(f"{app.name} ({app.sha256.hex()[:16]}…)" for app in roster.apps)
    apps = apps or ("ANY APP" if is_unpinned(roster) else "no app")
    _log.info("f2ed: roster %r, serial %s: this node runs %s", roster.name, roster.serial, apps)
    for risk in roster.accepted:
        _log.warning("f2ed: ACCEPTED RISK %s, by the roster %r, serial %s", risk, roster.name, roster.serial)


def app_command(user: str, command: Sequence[str]) -> list[str]:
    """Return a command as another user, with that user's groups and without any privilege or a way to get one."""
    if not user:
        return list(command)
    uid = user_id(user)
    if os.geteuid() != 0:
        raise ConfigError(f"only root may run apps as {user}; start f2ed node as root, or f2ed executor as {user}")
    if uid in (0, os.geteuid()):
        raise ConfigError(f"{user} is the node's own user; apps need another one")
    who = pwd.getpwuid(uid)
    dropped = ("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs")
    # setpriv itself still may enter any folder; what env starts may enter those of the user.
    return ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--init-groups", *dropped, "env", *command]


def app_environment(environment: Mapping[str, str], further: Sequence[str]) -> dict[str, str]:
    """Return the environment of apps: what they need, and nothing that may be a secret of the node."""
    return {name: environment[name] for name in (*_PASSED, *further) if name in environment} | QUIET


def agent_settings(options: NodeOptions) -> dict[str, Any]:
    """Return the settings of the node that its agent follows, and no app sees."""
    paths = dict(zip(OURS, (options.key, options.roster, options.authority), strict=True))
    return split_settings(options.node_config).agent | {name: str(path.resolve()) for name, path in paths.items()}


def _remove(place: Place, options: NodeOptions) -> None:
    place.path.unlink(missing_ok=True)
    if options.app_secret is None:
        shutil.rmtree(place.path.parent, ignore_errors=True)


def _arguments(options: NodeOptions, trusted: Path, secret: Path, agent: Path) -> list[str]:
    config = f'{AGENT}="{agent}" {split_settings(options.node_config).apps}'
    found = [
        *("--superlink", options.superlink, "--root-certificates", str(options.root_certificates)),
        *("--host", HOST, "--port", str(options.port)),
        *("--isolation", "process", "--superexec-auth-secret-file", str(secret)),
        *("--trusted-entities", str(trusted)),
        *("--node-config", config.strip()),
        *options.further,
    ]
    return found if options.auth_key is None else [*found, "--auth-supernode-private-key", str(options.auth_key)]


def _start_executor(options: NodeOptions, secret: bytes) -> None:
    tried = subprocess.run(app_command(options.app_user, [sys.executable, "-c", ""]), check=False)  # noqa: S603
    if tried.returncode:
        raise ConfigError(
            f"{options.app_user} cannot execute {sys.executable}; install f2ed where this user may enter, such as /opt"
        )
    address = f"{HOST}:{options.port}"
    command = [sys.executable, "-P", "-m", "f2ed.flower.executor", address, options.preload]
    process = subprocess.Popen(  # noqa: S603  our own command
        app_command(options.app_user, command),
        stdin=subprocess.PIPE,
        cwd="/",
        env=app_environment(os.environ, options.app_variables),
    )
    stopping = threading.Event()

    def stop() -> None:
        stopping.set()
        process.terminate()

    def watch() -> None:
        process.wait()
        # A signal to all processes of the node ends this one first.
        if not stopping.wait(_GRACE):
            _end("the executor of apps has ended")

    _at_the_end(stop)
    assert process.stdin is not None  # noqa: S101  it was asked for
    process.stdin.write(secret.hex().encode() + b"\n")
    process.stdin.flush()  # It stays open until this process ends, and with it the executor.
    threading.Thread(target=watch, daemon=True).start()


def _at_the_end(what: Callable[[], Any]) -> None:
    """Do something when the process ends, whether Flower ends it or this module does."""
    add_exit_handler(what)
    atexit.register(what)


def _end(why: str) -> None:
    """End this process at once, with all its threads: a supervisor starts it again."""
    _log.error("f2ed: %s; this node stops", why)
    atexit._run_exitfuncs()  # noqa: SLF001  os._exit runs none
    os._exit(1)
