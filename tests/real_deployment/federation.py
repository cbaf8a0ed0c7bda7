"""A run of the app under a test's control: round by round, with orders to fail, and every model to compare."""

import io
import sys
import threading
import time
from pathlib import Path

import numpy as np

from f2ed.core.errors import PeerError
from f2ed.deployment.keyfiles import read_private, read_secret
from f2ed.deployment.pin import accept_weaker
from f2ed.deployment.roster import SignedEncoding, revised, signed, write_roster
from f2ed.records import read

APP = Path(__file__).parent / "app"
sys.path.insert(0, str(APP))

from sums.desk import Desk  # noqa: E402  from the app that is deployed
from sums.task import CLIP, STEP, moved, start  # noqa: E402, F401

PATIENCE = 400.0
"""Beyond this a test fails; what is waited for takes a small part of it on a quiet machine."""


class Federation:
    """One run. Its rounds begin when a test says so."""

    def __init__(self, deployment, name, *, after=0, **settings):
        self.deployment = deployment
        self.round = after
        self.desk = Desk(deployment.folder / name)
        self.lines = []
        self.seconds = 0.0
        self._folder = deployment.folder / name
        self._given = {
            "f2ed-roster": str(deployment.roster_path),
            "f2ed-records": str(self._folder / "run.jsonl"),
            "desk": str(self._folder),
        } | settings
        self._reader = threading.Thread(target=self._read, daemon=True)

    def begin(self):
        """Submit the run, after the authority signed for its settings."""
        roster, noise = self.deployment.roster, self._given.get("f2ed-noise-multiplier", 0.0)
        mode = self._given.get("f2ed-mode", roster.mode)
        encoding = SignedEncoding(clip_value=CLIP, clip_norm=1.0 if noise else None)
        if (mode, encoding, noise) != (roster.mode, roster.encoding, roster.noise_multiplier):
            authority = read_private(self.deployment.folder / "authority.key")
            tolerant = mode == "dropout-tolerant"
            self.deployment.roster = signed(
                revised(roster, encoding=encoding, noise_multiplier=noise),
                authority,
                shards=roster.shards,
                min_crowd=roster.min_crowd,
                mode=mode,
                group_size=1 if tolerant else None,  # one member may drop out, and no other
                accepted=("leak", "differences", *roster.accepted) if tolerant else None,
                seed=read_secret(self.deployment.folder / "authority.chain"),
            )
            write_roster(self.deployment.roster_path, self.deployment.roster)
            for key in (self.deployment.folder / "nodes").glob("client_*.key"):
                accept_weaker(key.with_suffix(".state"), self.deployment.roster.digest)
        self._reader.start()
        return self

    def ready(self):
        """Wait for the first model."""
        self.until(f"ended/{self.round}")
        return self

    def ask(self, *, deadline=600.0, **orders):
        """Begin a round; `orders` are such as c3_Peers="die"."""
        for stale in [*self._folder.glob("sent/*"), *self._folder.glob("held/*"), *self._folder.glob("release/*")]:
            stale.unlink(missing_ok=True)
        for place, what in orders.items():
            self.desk.put(f"orders/{place.removeprefix('c').replace('_', '.')}", what)
        self.round += 1
        self._since = time.monotonic()
        self.desk.put(f"begin/{self.round}", deadline)

    def result(self):
        """Wait for the end of the round; return its record."""
        self.until(f"ended/{self.round}")
        self.seconds = time.monotonic() - self._since
        return read(self._folder / "run.jsonl").rounds[-1]

    def model(self, round_):
        """Return the model after a round."""
        return np.load(io.BytesIO((self._folder / "models" / f"{round_}.npy").read_bytes()))

    def equals_the_survivors(self, shards):
        """Say whether this round moved the model, to the bit, as these survivors alone would have."""
        before, after = self.model(self.round - 1), self.model(self.round)
        return after.tobytes() == moved(before, shards, self.round).tobytes() != before.tobytes()

    def until(self, name):
        """Wait for a report, and not beyond the end of the run."""
        self._want(name)
        return self.desk.read(name)

    def until_heard(self, client, step):
        """Wait until the server has a client's reply."""
        self.until(f"heard/{self.until(f'sent/{client}.{step}')}")

    def end(self):
        """End the run."""
        self.desk.put(f"begin/{self.round + 1}", "end")
        self._reader.join(PATIENCE)

    def _want(self, name):
        def there():
            if self.desk.read(name) is not None:
                return True
            assert self._reader.is_alive(), "the run has ended"
            return False

        try:
            wait_until(there)
        except AssertionError as error:
            raise AssertionError("\n".join([f"no {name}: {error}", *self.lines[-40:]])) from None

    def _read(self):
        try:
            for line in self.deployment.run(APP, self._given):
                self.lines.append(line)
        except PeerError as error:
            self.lines.append(str(error))


def wait_until(condition):
    """Wait for what must come about, within reason."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"it did not come about in {PATIENCE:g} s"
        time.sleep(0.05)
