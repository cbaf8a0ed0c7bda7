"""Client sampling: 100 of 10,000 clients per round against a federation of 100, time of a round and peak memory.

    python benchmarks/client_sampling.py            an MLP of 101,770 weights on 28 x 28 pixels; about four minutes
    python benchmarks/client_sampling.py --quick    a smaller one, fewer rounds

All use the same pool of samples, 60 for each client, masks on, 25 shards. Rounds alternate in one process, and the
ratios are those of the medians: of time, and of CPU time, which other work on the machine changes less. Peak memory is
that of a fresh process for each arm. In a sample most clients are new and agree on keys first, which fixed shards of
the same 100 clients do once: so the federation of 100 is measured with fixed shards, after its first round, and with
shards that change in every round.
"""

import json
import statistics
import sys
import time

import numpy as np
from timing import in_fresh_process, peak_bytes, table

from f2ed.learning.partition import Partitioner
from f2ed.simulation import Simulation, experiment

QUICK = "--quick" in sys.argv
ARMS = {
    "100 clients, fixed shards": {"clients": 100},
    "100 clients, resharded every round": {"clients": 100, "schedule": "every-round"},
    "100 of 10,000 clients, fixed shards": {"clients": 10_000, "clients_per_round": 100},
    "100 of 10,000 clients, with momentum": {"clients": 10_000, "clients_per_round": 100, "client_momentum": 0.9},
}
ROUNDS = int(sys.argv[sys.argv.index("--rounds") + 1]) if "--rounds" in sys.argv else 6 if QUICK else 16
HEADS = ("federation", "seconds to start", "ms per round", "ratio", "CPU ms", "ratio", "peak MB", "ratio")


class Shared(Partitioner, frozen=True, tag="shared"):
    """Gives each client 60 samples; clients may share some, so that the pool is the same for any number of them."""

    def assign(self, labels, clients, rng):
        """Cut a permutation, again and again."""
        order = rng.permutation(len(labels))
        return [order[np.arange(60 * client, 60 * client + 60) % len(labels)] for client in range(clients)]


def simulation(arm):
    """Return the run of an arm."""
    side, train = (8, 12_000) if QUICK else (28, 60_000)
    settings = {
        "data": {"kind": "synthetic", "train": train, "test": 200, "side": side},
        "partition": Shared(),
        "model": {"kind": "mlp", "hidden": [128]},
        "training": {"lr": 0.05, "local_epochs": 5},
        "shards": 25,
        "rounds": ROUNDS,
    }
    return Simulation(experiment(settings | ARMS[arm]))


def alternating():
    """Return the median time and CPU time of a round of each arm, without the first; and the time to start."""
    starts, runs = {}, {}
    for arm in ARMS:
        since = time.perf_counter()
        run = simulation(arm)
        starts[arm] = time.perf_counter() - since
        runs[arm] = (run, run.start())
    times, busy = ({arm: [] for arm in ARMS} for _ in range(2))
    for _ in range(ROUNDS):
        for arm, (run, state) in runs.items():
            since, used = time.perf_counter(), time.process_time()
            after, _ = run.step(state)
            times[arm].append(time.perf_counter() - since)
            busy[arm].append(time.process_time() - used)
            runs[arm] = (run, after)
    return starts, *({arm: statistics.median(each[1:]) for arm, each in found.items()} for found in (times, busy))


def main():
    """Print a table, or one arm's peak memory."""
    if "--memory" in sys.argv:
        run = simulation(sys.argv[sys.argv.index("--memory") + 1])
        state = run.start()
        for _ in range(ROUNDS):
            state, _ = run.step(state)
        print(json.dumps(peak_bytes()))
        return
    given = sys.argv[1:]
    peaks = {arm: in_fresh_process(__file__, "--memory", arm, *given) / 1e6 for arm in ARMS}
    starts, times, busy = alternating()
    base = next(iter(ARMS))
    rows = [
        (arm, f"{starts[arm]:.2f}", f"{1e3 * times[arm]:.0f}", f"{times[arm] / times[base]:.2f}",
         f"{1e3 * busy[arm]:.0f}", f"{busy[arm] / busy[base]:.2f}",
         f"{peaks[arm]:.0f}", f"{peaks[arm] / peaks[base]:.2f}")
        for arm in ARMS
    ]  # fmt: skip
    table(HEADS, rows)


if __name__ == "__main__":
    main()
