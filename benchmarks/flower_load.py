"""Many clients in Flower's simulation engine, some of whom fail in every round: is anything lost, does memory grow?

    python benchmarks/flower_load.py [--clients 100] [--shards 20] [--rounds 20] [--mode dropout-tolerant]

Every client adds a vector that is known beforehand, or is lost before it trains: the model must come out as the
survivors alone make it. Prints a line a round, then a summary; exits with 1 if anything was lost. Needs
`flwr[simulation]`.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}

import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

from f2ed import Mean
from f2ed.flower import F2ed, protect

SIZE, FAILING = 10_000, 0.05


def change(client, round_):
    return np.random.default_rng([client, round_]).normal(0, 0.01, SIZE).astype(np.float32)


def fails(client, round_):
    return np.random.default_rng([client, round_, 1]).random() < FAILING


def killed(message, context, call_next):
    """Fail outside of `protect`, as a node does whose process is killed: a failure in training would not be visible."""
    config = message.content.config_records.get("config")
    if config is not None and fails(context.node_config["partition-id"], config["server-round"]):
        raise RuntimeError("the process was killed")
    return call_next(message, context)


def train(message, context):
    me, round_ = context.node_config["partition-id"], message.content["config"]["server-round"]
    after = message.content["arrays"]["x"].numpy() + change(me, round_)
    return Message(RecordDict({"arrays": ArrayRecord({"x": Array(after)})}), reply_to=message)


def memory():
    """Return the megabytes that the server's process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Load:
    """The run, and what was seen of it."""

    def __init__(self, given):
        self.given = given
        self.rounds = []
        self.error = np.inf

    def lead(self, grid, _context):
        roster = os.environ["F2ED_ROSTER"]
        strategy = F2ed(
            roster=roster, estimator=Mean(), mode=self.given.mode, min_crowd=3, deadline=600, train_deadline=600
        )
        place = np.zeros(SIZE)

        def after(number, arrays):
            nonlocal place
            if not number:
                return
            record = strategy.records[-1]
            opened = [shard for shard in range(strategy.roster.shards) if shard not in record.excluded]
            missing = sorted(client for client in strategy.roster.keys if fails(client, number))
            place = place + expected(strategy.roster.assignment(0).shards, opened, number)
            self.error = float(np.abs(arrays["x"].numpy() - place).max())
            self.rounds.append(
                {
                    "round": number,
                    "seconds": record.seconds.total,
                    "opened": len(opened),
                    "failing": missing,
                    "dropped": sorted(record.dropped),
                    "megabytes": memory(),
                    "done": record.skipped is None,
                    "error": self.error,
                }
            )
            print(
                f"round {number:3}: {record.seconds.total:6.1f} s, "
                f"{len(opened)} of {strategy.roster.shards} shards opened, "
                f"{len(record.dropped)} dropped of {len(missing)} that failed, "
                f"{memory():.0f} MB, off by {self.error:.1e}",
                flush=True,
            )

        start = ArrayRecord({"x": Array(np.zeros(SIZE, np.float32))})
        strategy.start(grid, start, num_rounds=self.given.rounds, evaluate_fn=after)


def expected(shards, opened, number):
    """Return how far the survivors of the opened shards move the model."""
    survivors = [[client for client in shards[shard] if not fails(client, number)] for shard in opened]
    means = [np.mean([change(client, number) for client in shard], axis=0) for shard in survivors]
    return np.mean(means, axis=0) if means else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--mode", default="dropout-tolerant", choices=("dropout-tolerant", "all-or-nothing"))
    parser.add_argument("--out", type=Path, help="a file for the figures, as JSON")
    given = parser.parse_args()
    os.environ["F2ED_ROSTER"] = f"test:{given.clients}/{given.shards}/{given.mode}"
    server, client, load = ServerApp(), ClientApp(mods=[killed, protect]), Load(given)
    client.train()(train)
    server.main()(load.lead)
    print(f"{given.clients} clients in {given.shards} shards, {SIZE:,} coordinates, {FAILING:.0%} fail in each round")
    since = time.monotonic()
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": os.cpu_count()}}
    resources["init_args"]["log_to_driver"] = False  # Every failing client would log its error.
    run_simulation(server, client, num_supernodes=given.clients, backend_config=resources)
    if given.out:
        given.out.write_text(json.dumps({"rounds": load.rounds, "error": load.error}))
    sys.exit(0 if summary(load, time.monotonic() - since) else 1)


def summary(load, seconds):
    """Print what it comes to, and return whether nothing was lost."""
    rounds = load.rounds
    done = sum(each["done"] for each in rounds)
    lost = [each["round"] for each in rounds if each["dropped"] != each["failing"]]
    half = [each["megabytes"] for each in rounds[len(rounds) // 2 :]]
    print(
        f"{done} of {load.given.rounds} rounds moved the model in {seconds:.0f} s; "
        f"{sum(len(each['dropped']) for each in rounds)} drop-outs, all of them of clients that failed: "
        f"{'yes' if not lost else f'NO, see rounds {lost}'}; {sum(each['opened'] for each in rounds)} of "
        f"{len(rounds) * load.given.shards} shards opened; off by {load.error:.1e} at most; memory from "
        f"{rounds[0]['megabytes']:.0f} MB after the first round to {rounds[-1]['megabytes']:.0f} MB after the last, "
        f"{max(half) - min(half):+.1f} MB over the second half"
    )
    return done == load.given.rounds and not lost and load.error < 1e-5 * load.given.rounds


if __name__ == "__main__":
    # Flower's worker processes must be able to import what they run.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    import flower_load

    flower_load.main()
