"""What it costs to bind all that training sees to the masks, relative to a deployed round on Flower.

    python benchmarks/bound_input.py [--sizes 320000 10000000] [--rounds 3] [--nodes 6]

A node checks the headers, hashes the input and rebuilds message and context; the server hashes once. The time of a
round is that of real processes with TLS, and training that takes no time. The share counts the server and all nodes one
after another, as if they had a single core.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, RecordDict

from f2ed.deployment.train_input import run_digest
from f2ed.flower.handover import arrays_of, clean_context, clean_message, train_input
from f2ed.flower.local_deployment import Deployment

APP = Path(__file__).resolve().parent / "flower_app"
REPEATS = 20


def at_a_node(arrays, config, context):
    given = train_input(arrays, config)
    given.digest(run_digest(context.run_config))
    arrays_of(given), clean_message(given), clean_context(context)


def at_the_server(arrays, config, run_config):
    train_input(arrays, config).digest(run_config)


def median_seconds(work, *arguments):
    found = []
    for _ in range(REPEATS):
        since = time.perf_counter()
        work(*arguments)
        found.append(time.perf_counter() - since)
    return statistics.median(found)


def binding(size, run_config):
    """Return the median seconds at a node and at the server."""
    arrays = ArrayRecord({"x": Array(np.random.default_rng(0).standard_normal(size, dtype=np.float32))})
    config, context = ConfigRecord({"server-round": 1}), Context(1, 2, {"partition-id": 0}, RecordDict(), run_config)
    return median_seconds(at_a_node, arrays, config, context), median_seconds(at_the_server, arrays, config, bytes(32))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[320_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=6)
    given = parser.parse_args()
    print(f"{given.nodes} nodes in 2 shards on loopback, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print("d           round s   node ms   server ms   share of the round")
    with (
        tempfile.TemporaryDirectory(prefix="f2ed-bench-") as folder,
        Deployment(Path(folder), nodes=given.nodes, shards=2, min_crowd=given.nodes // 2, app=APP) as deployment,
    ):
        for size in given.sizes:
            out = Path(folder) / f"{size}.json"
            settings = {"f2ed-roster": str(deployment.roster_path), "out": str(out), "size": size}
            lines = list(deployment.run(APP, settings | {"rounds": given.rounds}))
            if not out.exists():
                raise SystemExit("\n".join(lines[-30:]))
            seconds = statistics.median(json.loads(out.read_text())["f2ed"]["seconds"])
            node, server = binding(size, settings)
            share = (given.nodes * node + server) / seconds
            print(f"{size:<10,} {seconds:8.1f} {1e3 * node:9.2f} {1e3 * server:11.2f} {share:20.2%}", flush=True)


if __name__ == "__main__":
    main()
