"""A deployed round with helpers beside one in shards: as many nodes, the same app and model, TLS and authentication on.

    python benchmarks/helped_flower.py [--nodes 6] [--size 320000] [--rounds 5] [--quick]

Two federations are there at the same time, and their rounds take turns, so that whatever else the machine does slows
both alike. The ratio is the median over pairs of rounds that follow one another; the smallest and the largest stand
beside it. The first round of each, which loads everything and agrees on keys, is not counted.
"""

import argparse
import os
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from f2ed.flower.local_deployment import Deployment
from f2ed.flower.trial_roster import TrialHelpers
from f2ed.protocol.helpers import HelpersProtocol
from f2ed.records import read

APP = Path(__file__).resolve().parent / "turns_app"
GROUP = 3


class Federation:
    """One of the two, whose rounds begin when they are told to."""

    def __init__(self, folder, helpers, given):
        folder.mkdir()
        self.folder, self.lines = folder, []
        shards = given.nodes // GROUP
        self.deployment = Deployment(
            folder, nodes=given.nodes, shards=shards, min_crowd=GROUP, app=APP, helpers=helpers
        )
        key = "" if helpers is None else str(folder / "server" / "server.key")
        files = {"folder": str(folder), "f2ed-roster": str(folder / "roster.json"), "f2ed-server-key": key}
        self.settings = files | {"rounds": given.rounds + 1, "size": given.size}

    def begin(self):
        """Submit the run, and wait until its nodes are there."""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self._until("ended-0")

    def lead(self, number):
        """Have a round; return its seconds."""
        since = time.monotonic()
        (self.folder / f"begin-{number}").touch()
        self._until(f"ended-{number}")
        return time.monotonic() - since

    def end(self, number):
        """Let the run end, after this round."""
        (self.folder / f"begin-{number + 1}").touch()
        self.reader.join()

    def _read(self):
        self.lines.extend(self.deployment.run(APP, self.settings))

    def _until(self, name):
        while not (self.folder / name).exists():
            if not self.reader.is_alive():
                raise SystemExit("\n".join([f"the run of {self.folder.name} ended:", *self.lines[-30:]]))
            time.sleep(0.02)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--size", type=int, default=320_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one pair of rounds")
    given = parser.parse_args()
    given.rounds = 1 if given.quick else given.rounds
    print(f"{given.nodes} nodes each, {given.size:,} parameters, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    helpers = TrialHelpers(HelpersProtocol(size=GROUP))
    with tempfile.TemporaryDirectory(prefix="f2ed-bench-") as folder, ExitStack() as stack:
        arms = {}
        for name, kind in (("shards", None), ("helpers", helpers)):  # The second finds the ports of the first taken.
            arms[name] = Federation(Path(folder) / name, kind, given)
            stack.enter_context(arms[name].deployment)
            arms[name].begin()
        seconds = {name: [] for name in arms}
        for number in range(1, given.rounds + 2):
            for name, arm in arms.items():
                seconds[name].append(arm.lead(number))
                print(f"round {number}, {name}: {seconds[name][-1]:.1f} s, load {os.getloadavg()[0]:.1f}", flush=True)
        ratios = [b / a for a, b in zip(seconds["shards"][1:], seconds["helpers"][1:], strict=True)]
        one, other = (statistics.median(each[1:]) for each in seconds.values())
        print(
            f"shards {one:.1f} s, helpers {other:.1f} s, ratio {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f}–{max(ratios):.2f})"
        )
        for arm in arms.values():
            arm.end(given.rounds + 1)
        sent = {name: read(arm.folder / "run.jsonl").rounds[-1] for name, arm in arms.items()}
        print(
            f"bytes up: shards {sent['shards'].bytes_up:,}, helpers {sent['helpers'].bytes_up:,}; "
            f"to and from helpers: {sent['helpers'].deployed.relayed}"
        )


if __name__ == "__main__":
    main()
