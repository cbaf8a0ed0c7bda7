"""Brings about the faults of a plan, each in its round."""

import os
import signal
import threading
import time
from contextlib import suppress

from tests.real_deployment.chaos import checks
from tests.real_deployment.chaos.faults import SILENT

_NOTICED = 300.0
"""Seconds within which a log must name a full disk or a node that hangs, before either ends."""
_APART = 120.0
"""Seconds after which the server's next fault comes, though no log has named those before."""


class Injector:
    """Follows a run, and brings about what its plan says."""

    def __init__(self, stage, plan, *, log=print):
        self._stage = stage
        self._left = list(plan)
        self._log = log
        self._since = {}
        self.done = []
        """Faults that came about, with the time at which they did."""
        self._delayed = set()
        self._ending = []

    def follow(self, over):
        """Bring about all faults, until `over` says that the run has ended."""
        while not over():
            now = time.monotonic()
            for ending in [each for each in self._ending if each[0] <= now and (each[1] <= now or each[2]())]:
                self._ending.remove(ending)
                ending[3]()
            round_, finished = self._stage.round()
            if round_ > finished:
                self._since.setdefault(round_, now)
            # A fault whose round went by too fast, or that was not possible, comes in the next one.
            late = [round_ for round_ in self._since if round_ <= finished]
            for fault in [each for each in self._left if each.round in self._since]:
                due = fault.round in late or now - self._since[fault.round] >= fault.after
                if due and not (fault.client is None and self._would_hide_another()):
                    self._bring_about(fault)
            time.sleep(0.5)

    def _would_hide_another(self):
        """Whether a fault that ends the run would hide an earlier one: of the server, or of a node that the run names.

        Of a node's own log nothing is hidden.
        """
        recent = [(fault, at) for fault, at in self.done if time.time() - at <= _APART and fault.kind not in SILENT]
        told_by_the_run = [each for each in recent if each[0].kind not in checks.NAMED_BY_THE_NODE]
        return any(checks.words(self._stage, *each) is None for each in told_by_the_run)

    @property
    def left(self):
        """The faults that have not come about."""
        return self._left

    def end_all(self):
        """End what lasts."""
        for *_, end in self._ending:
            end()
        self._ending.clear()

    def _bring_about(self, fault):
        at = time.time()
        why_not = getattr(self, "_" + fault.kind.replace("-", "_"))(fault)
        if not why_not:
            self._left.remove(fault)
            self.done.append((fault, at))
        if not why_not or fault not in self._delayed:
            self._log(f"{time.strftime('%H:%M:%S')} {'NOT YET ' if why_not else ''}{_text(fault)}{why_not or ''}")
        if why_not:
            self._delayed.add(fault)

    def _later(self, seconds, what):
        self._ending.append((time.monotonic() + seconds, 0.0, None, what))

    def _once_noticed(self, fault, what):
        """As an operator does, who knows from a log that a disk is full or a node hangs."""
        now, at = time.monotonic(), time.time()
        noticed = lambda: checks.words(self._stage, fault, at) is not None  # noqa: E731
        self._ending.append((now + fault.lasts, now + _NOTICED, noticed, what))

    # Faults of a node

    def _node_killed(self, fault):
        return _killed(self._stage.nodes[fault.client].pid)

    def _executor_killed(self, fault):
        return _killed(self._stage.node_process(fault.client, "f2ed.flower.executor"))

    def _app_killed(self, fault):
        self._stage.desk.put(f"orders/{fault.client}.{fault.step}", "end-app")

    def _node_frozen(self, fault):
        pid = self._stage.nodes[fault.client].pid
        self._once_noticed(fault, lambda: _signal(pid, signal.SIGCONT))
        return _signal(pid, signal.SIGSTOP)

    def _clock_ahead(self, fault):
        self._stage.clocks[fault.client] = fault.ahead
        self._stage.restart_node(fault.client)

        self._later(fault.lasts + 30, lambda: self._stage.right_clock(fault.client))

    _clock_behind = _clock_ahead

    def _disk_full(self, fault):
        self._stage.fill(f"disk_{fault.client}")
        self._once_noticed(fault, lambda: self._stage.empty(f"disk_{fault.client}"))

    # Faults of the server

    def _superlink_killed(self, _fault):
        return _killed(self._stage.superlink.pid)

    def _superexec_killed(self, _fault):
        return _killed(self._stage.server_process("flower-superexec"))

    def _serverapp_killed(self, _fault):
        return _killed(self._stage.server_process("flwr-serverapp"))

    def _server_disk_full(self, fault):
        self._stage.fill("server")
        self._once_noticed(fault, lambda: self._stage.empty("server"))

    def _database_full(self, fault):
        self._stage.fill("database")
        self._later(fault.lasts, lambda: self._stage.empty("database"))

    def _server_clock_ahead(self, fault):
        self._stage.clocks["server"] = fault.ahead

        def right():
            self._stage.clocks.pop("server", None)
            self._stage.kill(self._stage.superlink)

        self._later(fault.lasts, right)
        return _killed(self._stage.superlink.pid)

    # The roster

    def _rotation(self, fault):
        """By the manual: the run is stopped, and submitted again once everybody has the new file."""
        stage = self._stage
        with stage.submitting:
            if not stage.stop_run():
                return "; no run goes on that could be stopped"
            self._change_roster(fault)
            for client in range(stage.members + 1):
                stage.give_roster(client)
        return None

    def _rotation_unannounced(self, fault):
        """Under the run, and one site after another."""
        self._change_roster(fault)

        def give():
            for client in range(self._stage.members + 1):
                self._stage.give_roster(client)
                time.sleep(0.5)

        threading.Thread(target=give, daemon=True).start()

    def _change_roster(self, fault):
        """A client joins; the next time one leaves."""
        stage, folder = self._stage, self._stage.folder
        joined = any(each.kind.startswith("rotation") for each, _ in self.done)
        if joined:
            stage.command("roster", "remove", str(stage.roster_path), f"client_{fault.round % stage.members}")
        else:
            stage.command(
                "roster", "add", str(stage.roster_path), str(folder / "nodes" / f"client_{stage.members}.pub")
            )
        stage.sign()


def _killed(pid):
    if pid is None:
        return "; there is no such process now"
    return _signal(pid, signal.SIGKILL)


def _signal(pid, which):
    with suppress(ProcessLookupError):
        os.kill(pid, which)
        return None
    return "; it has ended already"


def _text(fault):
    who = "" if fault.client is None else f" of client {fault.client}"
    step = f" at {fault.step}" if fault.step else ""
    return f"round {fault.round}: {fault.kind}{who}{step}"
