"""The federation under faults: every process has a supervisor that starts it again, as systemd does."""

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from f2ed.core.errors import PeerError
from f2ed.deployment.run_lock import read_state
from f2ed.flower.local_deployment import Deployment
from f2ed.flower.processes import descendants, environment
from f2ed.flower.run_status import check_run
from f2ed.records import read
from tests.real_deployment.federation import APP, CLIP, Desk

_RESTART = 10.0
"""Seconds until a supervisor starts what has ended, as in the unit files."""
_PENDING = 60.0
"""Seconds until an operator finds a run suspicious that has not begun."""
_DISK = "16m"
_VARIABLES = ("LD_PRELOAD", "F2ED_AHEAD")
_POLL = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"
"""How often executors look for messages: every 0.25 s, 30 of them and their nodes would take half a core."""
_BUSY = re.compile(r"the run (\d+) is using the checkpoint")
_CLOCK = Path(__file__).with_name("clock.c")


def clocks_can_be_off():
    """Say whether a process can be given another clock here."""
    return shutil.which("cc") is not None


def disks_can_be_full():
    """Say whether small disks can be mounted here."""
    return os.geteuid() == 0 and shutil.which("mount") is not None


class Stage(Deployment):
    """A deployment whose parts are started again when they end, with clocks and disks that can fail."""

    def __init__(self, folder, *, nodes, shards, min_crowd, small_disks=(), log=print):
        # One more client than nodes: it joins when the roster changes.
        self._disks = set(small_disks)
        self._mounted = []
        self._stopping = threading.Event()
        self.submitting = threading.Lock()
        """Keeps the run from being submitted, while it is held."""
        self._ended = {}
        self.clocks = {}
        """Seconds by which the clock of a node, or of "server", is ahead."""
        self.run_number = None
        self.lines = []
        """What all submitted runs have logged, with the time of each line."""
        self.submitted = 0
        self._begun = False
        super().__init__(folder, nodes=nodes, shards=shards, min_crowd=min_crowd, app=APP, strangers=1, log=log)
        self.desk = Desk(folder / "desk")
        self.members = nodes
        self.serials = folder / "serials"
        self.serials.mkdir()
        self._make_disks()
        if clocks_can_be_off():
            made = ["cc", "-shared", "-fPIC", "-o", str(folder / "clock.so"), str(_CLOCK), "-ldl"]
            subprocess.run(made, check=True)
        self.command("log", "key", str(folder / "server_log.key"))
        self.command("roster", "server", str(self.roster_path), str(folder / "server_log.pub"))
        self.sign("--clip-value", repr(CLIP))  # With it the steps of the fixed point are those of the app.
        for client in range(nodes + 1):
            self.give_roster(client)

    # The roster

    def roster_of(self, client):
        return self.folder / "sites" / f"site_{client}.json"

    def command(self, *words, status=0):
        """Run f2ed, as the authority or an operator would; None for any exit status."""
        done = subprocess.run(
            [*self.f2ed, *words],
            capture_output=True,
            text=True,
            check=False,
            env=environment(self.folder),
            cwd=self.folder,
        )
        assert status is None or done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def sign(self, *settings):
        """Sign the next serial, and keep it."""
        authority = str(self.folder / "authority.key")
        self.command("roster", "sign", str(self.roster_path), "--authority", authority, *settings)
        number = 1 + len(list(self.serials.iterdir()))
        shutil.copy(self.roster_path, self.serials / f"serial_{number}.json")

    def give_roster(self, client):
        """Bring the newest file to a site."""
        place = self.roster_of(client)
        place.parent.mkdir(exist_ok=True)
        fresh = place.with_suffix(".new")
        shutil.copy(self.roster_path, fresh)
        fresh.replace(place)

    # Disks

    def _make_disks(self):
        (self.folder / "server").mkdir()
        (self.folder / "database").mkdir()
        (self.folder / "superlink.db").symlink_to(self.folder / "database" / "superlink.db")
        if not disks_can_be_full():
            return
        for name in ("server", "database", *(f"disk_{client}" for client in sorted(self._disks))):
            place = self.folder / name
            place.mkdir(exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(place)], check=True)  # noqa: S607
            self._mounted.append(place)

    def fill(self, name):
        """Fill a disk to its last byte."""
        with suppress(OSError), (self.folder / name / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        with suppress(OSError), (self.folder / name / "ballast").open("ab", buffering=0) as file:
            while True:
                file.write(b"\0")

    def empty(self, name):
        """Make room again."""
        (self.folder / name / "ballast").unlink(missing_ok=True)

    # Processes

    def start_process(self, name, command, *, piped=False):
        who = "server" if name == "superlink" else int(name.partition("_")[2]) if name.startswith("node_") else None
        if ahead := self.clocks.get(who):
            given = (self.folder / "clock.so", f"{ahead:.0f}")
            pairs = [f"{variable}={value}" for variable, value in zip(_VARIABLES, given, strict=True)]
            command = ["env", *pairs, *command]
        if who != "server" and who is not None:
            command = ["env", f"{_POLL}=1", *command]
        return super().start_process(name, command, piped=piped)

    def start_node(self, client, *, settings=None):
        further = {}
        if client in self._disks:
            place = self.folder / f"disk_{client}"
            further = {"f2ed-state": str(place / "state"), "f2ed-keys": str(place / "keys")}
        # The app needs no torch, which would take 200 MB in each of the nodes on this machine.
        self.node_options = [
            "--preload",
            "numpy",
            *(word for name in (*_VARIABLES, _POLL) for word in ("--app-env", name)),
        ]
        super().start_node(client, settings=further | dict(settings or {}))

    def state_of(self, client):
        """Return the folder of a node's state."""
        if client in self._disks:
            return self.folder / f"disk_{client}" / "state"
        return self.folder / "nodes" / f"client_{client}.state"

    def supervise(self):
        """Start again what has ended, until the end."""
        threading.Thread(target=self._supervise, daemon=True).start()

    def right_clock(self, client):
        """Set the clock of a node, and tell it so if it has seen a day that is yet to come."""
        self.clocks.pop(client, None)
        self.restart_node(client)
        said = self.command("roster", "reset-day", "--state", str(self.state_of(client)))
        self.hear(f"site of client {client}: {said.strip()}")

    def restart_node(self, client):
        """Stop a node, as its operator would; its supervisor starts it again, perhaps with another clock."""
        with suppress(ProcessLookupError):
            self.nodes[client].terminate()

    def _supervise(self):
        while not self._stopping.wait(1.0):
            now = time.monotonic()
            parts = {"superlink": self.superlink, **self.nodes}
            for name, process in parts.items():
                if process.poll() is None:
                    self._ended.pop(name, None)
                elif now - self._ended.setdefault(name, now) >= _RESTART:
                    del self._ended[name]
                    with suppress(PeerError):
                        self.start_superlink() if name == "superlink" else self.start_node(name)

    def server_process(self, name):
        """Return a process below the SuperLink, or an orphan of an earlier one, by the name of its program."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (place / "cmdline").read_text()
                found += [int(place.name)] * (name in words and f"127.0.0.1:{self.port}" in words)
        return max(found, default=None)

    def node_process(self, client, name):
        """Return a process below a node, by a part of its command."""
        for pid in descendants([self.nodes[client].pid]):
            with suppress(OSError):
                if name in Path(f"/proc/{pid}/cmdline").read_text():
                    return pid
        return None

    # The run

    @property
    def records(self):
        return self.folder / "server" / "run.jsonl"

    def round(self):
        """Return the round under way, counted from 1; 0 while none is, and how many are finished."""
        try:
            state, held = read_state(self.records)
            finished = len(read(self.records).rounds)
        except Exception:  # noqa: BLE001  a disk is full, or nothing has begun
            return 0, 0
        return (state.round if held and state is not None else 0), finished

    def settings(self, rounds, **others):
        return {
            "unattended": True,
            "desk": str(self.folder / "desk"),
            "f2ed-roster": str(self.roster_path),
            "f2ed-records": str(self.records),
            "f2ed-checkpoint": str(self.folder / "server" / "model.checkpoint"),
            "f2ed-server-key": str(self.folder / "server_log.key"),
            "num-rounds": rounds,
        } | others

    def run_until_done(self, settings, *, patience):
        """Submit the run until it completes, as a supervisor does; raise `PeerError` if that takes too long."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            with self.submitting:
                self.submitted += 1
            self._begun = False
            watched = threading.Timer(_PENDING, self._look_at_pending, [self.submitted])
            watched.daemon = True
            watched.start()
            try:
                for line in self.run(APP, settings):
                    self.hear(line)
            except PeerError as error:
                self.hear(f"submission {self.submitted} ended: {error}")
                if (other := _BUSY.search(str(error))) and self._followed(other[1]):
                    return
            else:
                return
            self._stopping.wait(_RESTART)
        raise PeerError(f"the run did not complete within {patience:g} s and {self.submitted} submissions")

    def _followed(self, number):
        """Follow a run that was taken for lost and goes on; return whether it completed."""
        for line in self._follow(number):
            self.hear(line)
        try:
            check_run([*self.flwr, "list", "trial"], number, environment(self.folder))
        except PeerError as error:
            self.hear(f"run {number} ended: {error}")
            return False
        return True

    def _follow(self, number):
        process = self.start_process("follow", [*self.flwr, "log", number, "trial", "--stream"], piped=True)
        with process.stdout:
            for line in process.stdout:
                yield line.decode(errors="replace").rstrip("\n")
        process.wait()

    def _look_at_pending(self, submission):
        """Restart a SuperLink that accepts runs and begins none, as the doctor says."""
        if submission != self.submitted or self._begun or self._stopping.is_set():
            return
        tls = ("--ca", str(self.tls.ca), "--certificate", str(self.tls.certificate), "--key", str(self.tls.key))
        given = ("--roster", str(self.roster_path), "--authority", "authority.pub", *tls)
        words = [*self.f2ed, "doctor", "server", *given, "--superlink", self.control_address]
        found = subprocess.run(
            words, capture_output=True, text=True, check=False, env=environment(self.folder), cwd=self.folder
        )
        self.hear(f"run {self.run_number} has not begun after {_PENDING:g} s; the doctor says: {found.stdout}")
        if "restart the SuperLink" in found.stdout:
            self.kill(self.superlink)

    def hear(self, line):
        self.lines.append((time.time(), line))
        with (self.folder / "run.log").open("a") as file:
            file.write(f"{time.strftime('%H:%M:%S')} {line}\n")
        if found := re.search(r"started run (\d+)", line):
            self.run_number = found[1]
        self._begun = self._begun or "flwr-serverapp" in line

    def stop_run(self):
        """Stop the run, as `flwr stop` does, and return whether there was one."""
        words = [*self.flwr, "stop", self.run_number, "trial"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment(self.folder))
        self.hear(f"flwr stop: {done.returncode} {(done.stdout + done.stderr).strip()[-300:]}")
        return done.returncode == 0

    def close(self):
        self._stopping.set()
        for client, process in self.nodes.items():
            if process.poll() is None and client in self.nodes:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGCONT)
        super().close()

    def unmount(self):
        """Remove the small disks, with all that is on them."""
        for place in self._mounted:
            subprocess.run(["umount", "-l", str(place)], check=False)  # noqa: S607
        self._mounted.clear()
