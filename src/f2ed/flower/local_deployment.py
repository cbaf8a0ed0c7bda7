"""A whole deployment on this machine: SuperLink and SuperNodes as separate processes, on loopback, with TLS.

Nothing listens beyond 127.0.0.1, nothing is written outside one folder, and every process is stopped at the end.
"""

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.apps import describe
from f2ed.deployment.certs import Tls, node_key, server_certificate
from f2ed.deployment.keyfiles import read_private, write_pair
from f2ed.deployment.roster import Entry, Roster, revised, signed, write_roster
from f2ed.flower.bundle import build
from f2ed.flower.processes import HOST, descendants, free_ports, kill_each, tool
from f2ed.protocol.secagg import public_key

__all__ = ["Deployment"]

_PATIENCE = 120.0
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
        log: Log = lambda _: None,
    ) -> None:
        """Create all keys, and sign a roster that approves the app in this folder as it is now.

        `strangers` are nodes that the SuperLink knows and the roster does not. `spares` are additional keys that the
        SuperLink knows, to replace lost nodes: see `replace_node`.
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
        self._tls: Tls = server_certificate(folder / "certs", [HOST, "localhost"])
        self.roster = self._identities(nodes, shards, min_crowd, app)
        self._ports = free_ports()
        self._port = next(self._ports)

    @property
    def roster_path(self) -> Path:
        """The signed roster."""
        return self.folder / "roster.json"

    def __enter__(self) -> Self:
        """Start everything, and return when the SuperLink knows all nodes."""
        try:
            self.start_superlink()
            self._register()
            for client in range(self._count):
                self.start_node(client)
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
        self._log(f"starting the SuperLink on {HOST}:{self._port}, with TLS and node authentication")
        self.superlink = self._start(
            "superlink",
            [
                *tool("flower-superlink"),
                *("--host", HOST, "--port", str(self._port)),
                *("--ssl-ca-certfile", str(self._tls.ca)),
                *("--ssl-certfile", str(self._tls.certificate), "--ssl-keyfile", str(self._tls.key)),
                *("--enable-supernode-auth", "--disable-runtime-dependency-installation"),
                *("--database", str(self.folder / "superlink.db")),
            ],
        )
        self._until_it_answers(self.superlink)

    def start_node(self, client: int, *, settings: Mapping[str, str] | None = None) -> None:
        """Start a SuperNode that runs approved apps only; `settings` are added to its node-config."""
        given = {"partition-id": client, "num-partitions": self._count} | dict(settings or {})
        config = " ".join(
            f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}" for name, value in given.items()
        )
        self.nodes[client] = self._start(
            f"node_{client}",
            [
                *(sys.executable, "-m", "f2ed.cli", "node", "--roster", str(self.roster_path)),
                *("--authority", str(self.folder / "authority.pub")),
                *("--key", str(self.folder / "nodes" / f"client_{client}.key")),
                *("--superlink", f"{HOST}:{self._port}", "--root-certificates", str(self._tls.ca)),
                *("--auth-supernode-private-key", str(self.folder / "nodes" / f"node_{self._keys[client]}")),
                *("--port", str(next(self._ports)), "--node-config", config),
            ],
        )

    def start_node_again(self, client: int, *, settings: Mapping[str, str] | None = None) -> None:
        """Start a SuperNode and wait until it is connected.

        For about a minute after a node was killed the SuperLink considers it connected and rejects its successor.
        """
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            before = len(self.log(f"node_{client}"))
            self.start_node(client, settings=settings)
            while self.nodes[client].poll() is None and time.monotonic() < until:
                if "SuperNode ID:" in self.log(f"node_{client}")[before:]:
                    return
                time.sleep(0.2)
            self.kill(self.nodes[client])
        raise PeerError(f"node {client} was not admitted within {_PATIENCE:g} s; its log is in {self.folder}")

    def replace_node(self, client: int, *, settings: Mapping[str, str] | None = None) -> None:
        """Start a SuperNode in place of a lost one, under a spare key, which the SuperLink admits at once.

        The client is the same: its identity in the protocol is not the key with which its node connects.
        """
        if not self._spares:
            raise ConfigError("no spare key is left; make the deployment with more spares")
        self._keys[client] = self._spares.pop()
        self.start_node_again(client, settings=settings)

    def approve(self, *apps: Path) -> None:
        """Let the authority approve these apps and no others, in the next serial of the roster."""
        draft = revised(self.roster, apps=tuple(describe(build(each)).app for each in apps))
        old = self.roster
        self.roster = signed(
            draft,
            read_private(self.folder / "authority.key"),
            shards=old.shards,
            min_crowd=old.min_crowd,
            schedule=old.schedule,
            mode=old.mode,
            colluders=old.colluders,
            seed=old.seed,
        )
        write_roster(self.roster_path, self.roster)

    def run(self, app: Path, settings: Mapping[str, Any]) -> Iterator[str]:
        """Submit an app and yield the lines of its log; raise `PeerError` if it fails."""
        process = self._start("run", self._run_command(app, settings), piped=True)
        assert process.stdout is not None  # noqa: S101  it was asked for
        with process.stdout:
            for line in process.stdout:
                yield line.decode(errors="replace").rstrip("\n")
        if process.wait() != 0:
            raise PeerError(f"flwr run ended with status {process.returncode}; the logs are in {self.folder}")

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
            process.wait(_PATIENCE)
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

    def _identities(self, nodes: int, shards: int, min_crowd: int, app: Path) -> Roster:
        """Create all keys and the roster in one place, which only a trial may do."""
        authority = os.urandom(32)
        write_pair(self.folder / "authority.key", authority)
        entries = []
        for client in range(self._count):
            seed = os.urandom(32)
            write_pair(self.folder / "nodes" / f"client_{client}.key", seed)
            entries.append(Entry(client, f"client_{client}", public_key(seed)))
        for number in (*self._keys, *self._spares):
            node_key(self.folder / "nodes" / f"node_{number}")
        approved = (describe(build(app)).app,)
        draft = Roster(name="trial", authority=public_key(authority), clients=tuple(entries[:nodes]), apps=approved)
        roster = signed(draft, authority, shards=shards, min_crowd=min_crowd, seed=os.urandom(32))
        write_roster(self.roster_path, roster)
        return roster

    def _register(self) -> None:
        self._log(f"registering {self._count} nodes")
        home = self.folder / "flwr"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "trial"\n\n[superlink.trial]\naddress = "{HOST}:{self._port}"\n'
            f'root-certificates = "{self._tls.ca}"\n'
        )
        under_way = {
            f"register_{number}": self._start(
                f"register_{number}",
                [*tool("flwr"), "supernode", "register", str(self.folder / "nodes" / f"node_{number}.pub"), "trial"],
            )
            for number in (*self._keys, *self._spares)
        }
        for name, process in under_way.items():
            self._finish(name, process)

    def _run_command(self, app: Path, settings: Mapping[str, Any]) -> list[str]:
        command = [*tool("flwr"), "run", str(app), "trial", "--stream"]
        for name, value in settings.items():
            command += ["-c", f'{name}="{value}"' if isinstance(value, str | Path) else f"{name}={value}".lower()]
        return command

    def _finish(self, name: str, process: Process) -> None:
        try:
            status = process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            raise PeerError(f"{name} took longer than {_PATIENCE:g} s; its log is in {self.folder}") from None
        self._started.remove(process)
        if status != 0:
            raise PeerError(f"{name} ended with status {status}: {self.log(name).strip()[-500:]}")

    def _start(self, name: str, command: list[str], *, piped: bool = False) -> Process:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603  our own commands with our own arguments
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd=self.folder,
                start_new_session=True,  # A process group: its children are stopped with it.
            )
        self._started.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "FLWR_HOME": str(self.folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
            # Flower starts its parts by name.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }

    def _until_it_answers(self, process: Process) -> None:
        trusted = ssl.create_default_context(cafile=str(self._tls.ca))
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            if process.poll() is not None:
                raise PeerError(f"the SuperLink ended at once: {self.log('superlink').strip()[-500:]}")
            with (
                suppress(OSError),
                socket.create_connection((HOST, self._port), timeout=5) as plain,
                trusted.wrap_socket(plain, server_hostname=HOST),
            ):
                return
            time.sleep(0.2)
        raise PeerError(f"the SuperLink did not answer within {_PATIENCE:g} s; its log is in {self.folder}")
