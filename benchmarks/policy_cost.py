"""What policy, binding, pins, round marks, logs, ratchet and hybrid keys cost together, as a share of a deployed round.

    python benchmarks/policy_cost.py [--sizes 320000 10000000] [--clients 6] [--rounds 2] [--training 10]

A whole deployment in one process: the real strategy, and nodes with `protect`, key files, state files and a signed
roster, which answer one after another. Every piece is timed where it is called, so that cost and round come from the
same run. A round is the server's work and one node's, who work at the same time, and training that takes as long as
stated; the first round agrees on keys. The last column is how long training, network and processes must take
altogether for the cost to be a tenth of the round. Before the table comes the set-up of a client in a simulation,
against X25519 alone.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from functools import wraps
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from key_setup import CLIENTS, kinds, measured

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the grid without a network is the tests'

from f2ed.deployment import identity
from f2ed.deployment.exposure import Exposure
from f2ed.deployment.layout_pin import LayoutPin
from f2ed.deployment.roster import terms
from f2ed.deployment.round_mark import RoundMark
from f2ed.deployment.survivor_sets import SurvivorSets
from f2ed.deployment.train_input import InputSummary, TrainInput
from f2ed.deployment.training_rules import TrainingRules
from f2ed.deployment.transparency import Heads, LogFile
from f2ed.flower import handover, protect
from f2ed.protocol.primitives import hybrid
from f2ed.protocol.secagg.schemes.all_or_nothing import pairs
from tests.flower.fake_grid import FakeGrid, Node, real_roster, server

PIECES = {
    "policy": [
        (identity, "followed_roster"), (terms, "derived_terms"), (Exposure, "follow"),
        (TrainingRules, "check_settings"), (TrainingRules, "check_run_config"), (TrainingRules, "check_layout"),
        (LayoutPin, "check"), (LayoutPin, "pin"),
    ],
    "binding": [
        (TrainInput, "summary"), (InputSummary, "digest"), (InputSummary, "layout"),
        (handover, "clean_message"), (handover, "clean_context"), (handover, "described"),
    ],
    "rounds and survivors": [(RoundMark, "check"), (RoundMark, "spend"), (SurvivorSets, "confirm")],
    "log": [(LogFile, "append"), (Heads, "take"), (Heads, "flush")],
    "hybrid keys": [(hybrid, "encapsulate"), (hybrid.HybridKey, "decapsulate"), (hybrid, "combine"), (pairs, "root")],
}  # fmt: skip


class Stopwatch:
    """Adds up the time in the pieces; a piece inside another counts once."""

    def __init__(self):
        self.seconds, self.cpu, self.inside = Counter(), 0.0, False

    def timed(self, piece, function):
        @wraps(function)
        def call(*args, **kwargs):
            if self.inside:
                return function(*args, **kwargs)
            self.inside, since, cpu = True, time.perf_counter(), time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[piece] += time.perf_counter() - since
                self.cpu += time.process_time() - cpu
                self.inside = False

        return call

    def put(self):
        """Time every piece wherever it is used."""
        for piece, functions in PIECES.items():
            for owner, name in functions:
                original = getattr(owner, name)
                timed = self.timed(piece, original)
                setattr(owner, name, timed)
                for module in [each for each in sys.modules.values() if each.__name__.startswith("f2ed.")]:
                    if vars(module).get(name) is original:
                        setattr(module, name, timed)


def app():
    """Return an app whose training takes no time."""
    made = ClientApp(mods=[protect])

    @made.train()
    def train(message, _context):
        arrays = ArrayRecord({"x": Array(message.content["arrays"]["x"].numpy() + np.float32(0.001))})
        return Message(RecordDict({"arrays": arrays}), reply_to=message)

    return made


def deployed(watch, size, clients, rounds):
    """Return seconds of all parties in a round, those of each piece in it, and the pieces' share of the CPU time."""
    with tempfile.TemporaryDirectory(prefix="f2ed-bench-") as folder:
        roster, settings = real_roster(Path(folder), clients, shards=2)
        grid = FakeGrid([Node(client, app(), settings[client]) for client in range(clients)])
        model = ArrayRecord({"x": Array(np.random.default_rng(0).standard_normal(size, dtype=np.float32))})
        watch.seconds.clear()
        watch.cpu = 0.0
        since, cpu = time.perf_counter(), time.process_time()
        leader = server(roster, deadline=600, train_deadline=600, max_wait=600)
        leader.start(grid, model, num_rounds=rounds)
        seconds, busy = time.perf_counter() - since, time.process_time() - cpu
    assert not any(record.excluded for record in leader.records)
    pieces = {piece: watch.seconds[piece] / rounds for piece in PIECES}
    return seconds / rounds, pieces, watch.cpu / (busy - watch.cpu)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[320_000, 10_000_000])
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--training", type=float, default=10.0, help="seconds of training in a round")
    given = parser.parse_args()
    print(f"{given.clients} clients in 2 shards, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for kind_size in CLIENTS:
        found = {kind: sum(measured(kind_size, protocol)) for kind, protocol in kinds()}
        old, new = found["x25519"], found["x25519+mlkem768"]
        print(
            f"set-up in a simulation, s = {kind_size}: {new:.2f} ms, X25519 {old:.2f} ms; 1 ms + 2 x: {1 + 2 * old:.2f}"
        )
    watch = Stopwatch()
    watch.put()
    print(
        "| coordinates | all parties, s | "
        + " | ".join(f"{piece}, ms" for piece in PIECES)
        + " | share | of CPU time | with training | a tenth from, ms |"
    )
    print("|---" * (len(PIECES) + 6) + "|")
    for size in given.sizes:
        seconds, pieces, cpu = deployed(watch, size, given.clients, given.rounds)
        cost = sum(pieces.values())
        each = given.clients + 1
        share, with_training = cost / (seconds - cost), cost / each / ((seconds - cost) / each + given.training)
        tenth = 1e3 * max(0.0, 10 * cost / each - (seconds - cost) / each)
        shown = " | ".join(f"{1e3 * value:.1f}" for value in pieces.values())
        print(
            f"| {size:,} | {seconds:.2f} | {shown} | {share:.1%} | {cpu:.1%} | {with_training:.2%} | {tenth:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
