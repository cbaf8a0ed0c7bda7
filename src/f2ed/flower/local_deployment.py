"""A whole deployment on this machine: SuperLink and SuperNodes as separate processes, on loopback, with TLS.

Nothing listens beyond 127.0.0.1, nothing is written outside one folder, and every process is stopped at the end.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.certs import Tls, server_certificate
from f2ed.deployment.roster import HelperRole
from f2ed.flower.processes import (
    HOST,
    PATIENCE,
    descendants,
    environment,
    free_ports,
    kill_each,
    tool,
    until_it_answers,
)
from f2ed.flower.run_status import check_run
from f2ed.flower.trial_commands import helper_command, superlink_command
from f2ed.flower.trial_roster import TrialHelpers, create_roster, sign_again

__all__ = ["Deployment"]

_GRACE = 5.0

Log = Callable[[str], None]
Process = subprocess.Popen[bytes]


class Deployment:
    """A context manager: every process is stopped on exit, also after an exception."""

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int,
        shards: int,
        min_crowd: int,
        app: Path,
        strangers: int = 0,
        spares: int = 0,
        helpers: TrialHelpers | None = None,
        log: Log = lambda _: None,
    ) -> None:
        """Create all keys, and sign a roster that approves the app in this folder as it is now.

        `strangers` are nodes that the SuperLink knows and the roster does not. `spares` are additional keys that the
        SuperLink knows, to replace lost nodes: see `replace_node`. With `helpers` a mixer and a judge are started too.
        """
        self.folder = folder
        self.nodes: dict[int, Process] = {}
        self.superlink: Process | None = None
        self._log = log
        self._started: list[Process] = []
        self._count = nodes + strangers
        self._keys = {client: client for client in range(self._count)}
        """The number of the key with which each node authenticates."""
        self._spares = list(range(self._count, self._count + spares))
        self.helpers: dict[HelperRole, Process] = {}
        roles: tuple[HelperRole, ...] = () if helpers is None else get_args(HelperRole)
        self._helper_keys = {role: self._count + spares + place for place, role in enumerate(roles)}
        self.tls: Tls = server_certificate(folder / "certs", [HOST, "localhost"])
        self.roster = create_roster(
            folder,
            clients=self._count,
            nodes=nodes,
            keys=(*self._keys, *self._spares, *self._helper_keys.values()),
            shards=shards,
            min_crowd=min_crowd,
            apps=[app],
            helpers=helpers,
        )
        self.ports = free_ports()
        self.port = next(self.ports)
        """Of the SuperLink."""
        self.node_address = self.control_address = f"{HOST}:{self.port}"
        """Where nodes connect, and where runs are submitted."""
        self.flwr = tool("flwr")
        """The command that submits them."""
        self.f2ed = [sys.executable, "-m", "f2ed.cli"]
        self.node_options: list[str] = []
        """Further options of f2ed node."""

    @property
    def roster_path(self) -> Path:
        """The signed roster."""
        return self.folder / "roster.json"

    def roster_of(self, client: int) -> Path:  # noqa: ARG002  one file serves all, unless a subclass gives out copies
        """Return the roster's file that a node reads."""
        return self.roster_path

    def __enter__(self) -> Self:
        """Start everything, and return when the SuperLink knows all nodes."""
        try:
            self.start_superlink()
            self._register()
            for client in range(self._count):
                self.start_node(client)
            for role in self._helper_keys:
                self.start_helper(role, first=True)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.close()

    def start_superlink(self) -> None:
        """Start the SuperLink and wait until it answers."""
        self._log(f"starting the SuperLink on {HOST}:{self.port}, with TLS and node authentication")
        self.superlink = self.start_process("superlink", superlink_command(self.folder, self.port, self.tls))
        until_it_answers(self.superlink, self.port, self.tls.ca, lambda: self.log("superlink"))

    def start_node(self, client: int, *, settings: Mapping[str, str] | None = None) -> None:
        """Start a SuperNode that runs approved apps only; `settings` are added to its node-config."""
        given = {"partition-id": client, "num-partitions": self._count} | dict(settings or {})
        config = " ".join(
            f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}" for name, value in given.items()
        )
        self.nodes[client] = self.start_process(
            f"node_{client}",
            [
                *(*self.f2ed, "node", *self.node_options, "--roster", str(self.roster_of(client))),
                *("--authority", str(self.folder / "authority.pub")),
                *("--key", str(self.folder / "nodes" / f"client_{client}.key")),
                *("--superlink", self.node_address, "--root-certificates", str(self.tls.ca)),
                *("--auth-supernode-private-key", str(self.folder / "nodes" / f"node_{self._keys[client]}")),
                *("--port", str(next(self.ports)), "--node-config", config),
            ],
        )

    def start_helper(self, role: HelperRole, *, first: bool = False) -> None:
        """Start a helper and its node; `first` when it never served before."""
        key, port = self._helper_keys[role], next(self.ports)
        command = helper_command(self.folder, role, self.node_address, self.tls.ca, key, port)
        self.helpers[role] = self.start_process(role, [*self.f2ed, *command, *(["--first"] if first else [])])

    def start_node_again(self, client: int, *, settings: Mapping[str, str] | None = None) -> None:
        """Start a SuperNode and wait until it is connected.

        For about a minute after a node was killed the SuperLink considers it connected and rejects its successor.
        """
        self._until_admitted(
            f"node_{client}", lambda: self.start_node(client, settings=settings), lambda: self.nodes[client]
        )

    def start_helper_again(self, role: HelperRole) -> None:
        """Start a helper that was killed, and wait until its node is connected, which may take as long."""
        self._until_admitted(role, lambda: self.start_helper(role), lambda: self.helpers[role])

    def _until_admitted(self, name: str, start: Callable[[], None], process: Callable[[], Process]) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            before = len(self.log(name))
            start()
            while process().poll() is None and time.monotonic() < until:
                if "SuperNode ID:" in self.log(name)[before:]:
                    return
                time.sleep(0.2)
            self.kill(process())
        raise PeerError(f"{name} was not admitted within {PATIENCE:g} s; its log is in {self.folder}")

    def replace_node(self, client: int, *, settings: Mapping[str, str] | None = None) -> None:
        """Start a SuperNode in place of a lost one, under a spare key, which the SuperLink admits at once.

        The client is the same: its identity in the protocol is not the key with which its node connects.
        """
        if not self._spares:
            raise ConfigError("no spare key is left; make the deployment with more spares")
        self._keys[client] = self._spares.pop()
        self.start_node_again(client, settings=settings)

    def approve(self, *apps: Path) -> None:
        """Let the authority approve these apps and no others."""
        self.roster = sign_again(self.folder, self.roster, apps)

    def run(self, app: Path, settings: Mapping[str, Any]) -> Iterator[str]:
        """Submit an app and yield the lines of its log; raise `PeerError` if the run does not complete."""
        process = self.start_process("run", self._run_command(app, settings), piped=True)
        assert process.stdout is not None  # noqa: S101  it was asked for
        number = None
        with process.stdout:
            for line in process.stdout:
                text = line.decode(errors="replace").rstrip("\n")
                number = number or re.search(r"started run (\d+)", text)
                yield text
        if process.wait() != 0:
            raise PeerError(f"flwr run ended with status {process.returncode}; the logs are in {self.folder}")
        if number is not None:
            check_run([*self.flwr, "list", "trial"], number[1], environment(self.folder))

    def log(self, name: str) -> str:
        """Return what a process has written so far: superlink, or node_0 and so on."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, process: Process) -> None:
        """Kill a process and all its descendants at once."""
        others = descendants([process.pid])
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kill_each(others)

    def stop(self, process: Process) -> None:
        """Stop a process as its operator would: a SuperNode deregisters from the SuperLink."""
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        self.kill(process)

    def close(self) -> None:
        """Stop everything that was started, the last first; what does not stop is killed."""
        # The SuperLink starts its part that runs apps in a session of its own, where no signal to a group reaches it.
        others = descendants([process.pid for process in self._started])
        for process in reversed(self._started):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        until = time.monotonic() + _GRACE
        for process in reversed(self._started):
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            self.kill(process)
        kill_each(others)
        self._started.clear()

    def _register(self) -> None:
        self._log(f"registering {self._count + len(self._helper_keys)} nodes")
        home = self.folder / "flwr"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "trial"\n\n[superlink.trial]\naddress = "{self.control_address}"\n'
            f'root-certificates = "{self.tls.ca}"\n'
        )
        under_way = {
            f"register_{number}": self.start_process(
                f"register_{number}",
                [*self.flwr, "supernode", "register", str(self.folder / "nodes" / f"node_{number}.pub"), "trial"],
            )
            for number in (*self._keys, *self._spares, *self._helper_keys.values())
        }
        for name, process in under_way.items():
            self._finish(name, process)

    def _run_command(self, app: Path, settings: Mapping[str, Any]) -> list[str]:
        command = [*self.flwr, "run", str(app), "trial", "--stream"]
        for name, value in settings.items():
            command += ["-c", f'{name}="{value}"' if isinstance(value, str | Path) else f"{name}={value}".lower()]
        return command

    def _finish(self, name: str, process: Process) -> None:
        try:
            status = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise PeerError(f"{name} took longer than {PATIENCE:g} s; its log is in {self.folder}") from None
        self._started.remove(process)
        if status != 0:
            raise PeerError(f"{name} ended with status {status}: {self.log(name).strip()[-500:]}")

    def start_process(self, name: str, command: list[str], *, piped: bool = False) -> Process:
        """Start a process that is stopped at the end, with its log in the folder."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603  our own commands with our own arguments
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else log,
                stderr=subprocess.STDOUT,
                env=environment(self.folder),
                cwd=self.folder,
                start_new_session=True,  # A process group: its children are stopped with it.
            )
        self._started.append(process)
        return process
