"""The leak meter: the time to evaluate 100 rounds, in seconds of one core, and what one more round costs.

    python benchmarks/leak_meter.py            10,000 clients in 1,000 shards; about a minute of CPU time
    python benchmarks/leak_meter.py --quick    1,000 clients

The limit is a BLAS product of n³/3 multiplications, the minimum for an elimination of n equations; it is
measured on a smaller matrix and scaled. Only resharding every round needs an elimination of that size.
"""

import json
import sys
import time

import numpy as np
from timing import in_fresh_process, peak_bytes, table

from f2ed.guarantees import LeakMeter
from f2ed.guarantees.leakage.forecast import opened_sums
from f2ed.protocol.sharding import Batches, EveryKRounds, EveryRound, Fixed

ROUNDS = 100
ARMS = {
    "fixed": (Fixed(), 0.0, "all-or-nothing"),
    "fixed, 5 % drop out, dropout-tolerant": (Fixed(), 0.05, "dropout-tolerant"),
    "every-k-rounds, k = 20": (EveryKRounds(20), 0.0, "all-or-nothing"),
    "batches of 2": (Batches(2), 0.0, "all-or-nothing"),
    "every-round": (EveryRound(), 0.0, "all-or-nothing"),
}
HEADS = (
    "schedule",
    "seconds of a core",
    "× limit",
    "slowest round, s",
    "last round, ms",
    "MB",
    "equations",
    "determined",
)


def measure(name, clients):
    """Return the seconds for all rounds, those of the last, and what was found."""
    schedule, client_dropout, mode = ARMS[name]
    rounds = list(
        opened_sums(
            clients=clients,
            shards=clients // 10,
            schedule=schedule,
            rounds=ROUNDS,
            client_dropout=client_dropout,
            mode=mode,
        )
    )
    meter, before, spent = LeakMeter(clients), peak_bytes(), []
    for sums in rounds:
        since = time.process_time()
        meter.observe(sums)
        spent.append(time.process_time() - since)
    return {
        "seconds": sum(spent),
        "most": max(spent),
        "last": spent[-1],
        "exposed": meter.exposed,
        "rank": meter.rank,
        "megabytes": (peak_bytes() - before) / 2**20,
    }


def limit(clients, size=1500):
    """Return the seconds of one core for n³/3 multiplications and additions in a matrix product."""
    matrix = np.random.default_rng(0).standard_normal((size, size))
    matrix @ matrix
    since = time.process_time()
    matrix @ matrix
    return (time.process_time() - since) * (clients / size) ** 3 / 3


def main():
    clients = 1_000 if "--quick" in sys.argv else 10_000
    least = limit(clients)
    print(f"## The leak meter: {clients:,} clients, {clients // 10:,} shards, {ROUNDS} rounds\n")
    rows = []
    for name in ARMS:
        found = in_fresh_process(__file__, name, str(clients))
        rows.append(
            [
                name,
                found["seconds"],
                found["seconds"] / least,
                found["most"],
                1e3 * found["last"],
                *(f"{found[what]:,.0f}" for what in ("megabytes", "rank", "exposed")),
            ]
        )
    table(HEADS, rows)
    print(f"The limit is {least:.2f} s.")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
    else:
        main()
