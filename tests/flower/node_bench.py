"""A node's files and a SuperLink that lies, without any process: apps arrive by Flower's own receiving function."""

import hashlib
import os
from dataclasses import replace

from flwr.supercore.fab import Fab
from flwr.supercore.run import Run

from f2ed.deployment.apps import describe
from f2ed.deployment.keyfiles import write_pair
from f2ed.deployment.roster import Entry, Roster, revised, signed, write_roster
from f2ed.flower.bundle import build
from f2ed.flower.pinning import Gate
from f2ed.flower.selftest import deliver
from f2ed.protocol.secagg import public_key

PROJECT = """
[project]
name = "{name}"
version = "{version}"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "clinics"
[tool.flwr.app.components]
serverapp = "{name}.app:server"
clientapp = "{name}.app:client"
[tool.flwr.app.config]
rounds = 3
[tool.flwr.app.config.optimizer]
lr = 0.1
"""


def make_app(folder, *, name="good", version="1.0.0", code="client = server = None\n"):
    """Write an app; return its bundle."""
    package = folder / name
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT.format(name=name, version=version))
    (package / "__init__.py").write_text("")
    (package / "app.py").write_text(code)
    return build(folder)


class Bench:
    """A node with its roster and authority, and what the server sends to it."""

    def __init__(self, folder, *, accepted=()):
        self.folder = folder
        self.roster, self.authority, self.identity = folder / "roster.json", folder / "authority.pub", folder / "a.key"
        self._seed = os.urandom(32)
        write_pair(folder / "authority.key", self._seed)
        write_pair(self.identity, os.urandom(32))
        clients = tuple(Entry(each, f"c{each}", public_key(os.urandom(32))) for each in range(4))
        self._chain = os.urandom(32)
        self._last = Roster(name="clinics", authority=public_key(self._seed), clients=clients, accepted=accepted)
        self.app = make_app(folder / "app")
        self.approve(self.app)

    def approve(self, *apps, seed=None, **changes):
        """Sign the next serial of the roster, with these apps."""
        draft = revised(self._last, apps=tuple(describe(each).app for each in apps), **changes)
        self._last = signed(draft, seed or self._seed, shards=1, min_crowd=3, seed=self._chain)
        write_roster(self.roster, self._last)
        return self._last

    def gate(self):
        return Gate(self.settings)

    @property
    def settings(self):
        """The settings of the node."""
        return {
            "f2ed-key": str(self.identity),
            "f2ed-roster": str(self.roster),
            "f2ed-authority": str(self.authority),
        }

    def send(self, content, *, gate=None, run=None, fab=None):
        """Let the node receive an app from a server that says this about it; return the node's state."""
        return deliver(gate or self.gate(), run or described(content), fab or Fab(sha256(content), content, {}))


def described(content, **lies):
    """Return what an honest server says about a run of an app, with some lies in it."""
    publisher, name, version = "clinics", "good", "1.0.0"
    honest = {"fab_id": f"{publisher}/{name}", "fab_version": version, "fab_hash": sha256(content)}
    return replace(Run.create_empty(7), **honest | lies)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def runs(state, content):
    """Say whether the node would run the app: it is stored, with a task for it."""
    stored = state.get_fab(sha256(content)) is not None
    assert stored == bool(list(state.get_tasks())) == (state.get_run(7) is not None)
    return stored


def errors(state):
    """Return the errors that the node sends."""
    return [(each.error.code, each.error.reason) for each in state.get_messages_legacy(is_reply=True)]
