"""What the transparency log costs: bytes and milliseconds per round, relative to a deployed round on Flower.

    python benchmarks/transparency_log.py [--clients 6] [--lines 10000] [--size 320000] [--no-round]

A node adds two lines to its log in a round, on the disk before its reply leaves; the server checks a line per reply and
adds one of its own. The time of a round is that of real processes with TLS, and training that takes no time. The share
counts the server and all nodes one after another, as if they had a single core.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from timing import milliseconds

from f2ed.deployment.roster import Entry, Roster, signed
from f2ed.deployment.transparency import Authors, Heads, LogFile, verify_logs, write_line
from f2ed.deployment.transparency.lines import SERVER, Began, RoundClosed, ShardOutcome, Uploaded
from f2ed.flower.local_deployment import Deployment
from f2ed.protocol.primitives.crypto import public_key

APP = Path(__file__).resolve().parent / "flower_app"
DIGEST = bytes(32)


def events(round_):
    place = {"round": round_, "shard": 0, "ctx": DIGEST}
    began = Began(**place, job="clinics.1/123456789", input=DIGEST, members=DIGEST, keyset=DIGEST)
    return began, Uploaded(**place)


def closed(heads, clients):
    shard = ShardOutcome(shard=0, ctx=DIGEST, survivors=tuple(range(clients)), opened=DIGEST)
    given = {"job": "clinics.1/123456789", "input": DIGEST, "before": DIGEST, "after": DIGEST}
    return RoundClosed(round=1, shards=(shard,), heads=heads, **given)


def federation(clients):
    keys = {by: os.urandom(32) for by in range(SERVER, clients)}
    authority = os.urandom(32)
    draft = Roster(
        name="clinics",
        authority=public_key(authority),
        clients=tuple(Entry(client, f"client_{client}", public_key(keys[client])) for client in range(clients)),
        server=public_key(keys[SERVER]),
    )
    return signed(draft, authority, shards=1, min_crowd=3, seed=os.urandom(32)), keys


def measured(folder, clients, lines):
    """Return the milliseconds of a node and of the server in a round, the bytes of both, and the seconds of a check."""
    roster, keys = federation(clients)
    logs = {
        by: LogFile(folder / f"{by}.log", by, keys[by], roster.lineage, roster.digest, roster.serial) for by in keys
    }
    node = milliseconds(lambda: logs[0].append(*events(0)))
    heads = Heads(roster)
    newest = [logs[client].append(*events(0)) for client in range(clients)]

    def serve():
        for client, line in enumerate(newest):
            heads.take(client, write_line(line))
        logs[SERVER].append(closed(tuple(newest), clients))

    server = milliseconds(serve)
    line = logs[SERVER].append(closed(tuple(newest), clients))
    sizes = [sum(len(write_line(each)) + 1 for each in newest[:1]), len(write_line(line)) + 1]
    before = logs[1].path.stat().st_size
    logs[1].append(*events(1))
    sizes.insert(0, logs[1].path.stat().st_size - before)
    long = logs[2]
    long.append(*(each for round_ in range(2, 2 + lines // 2) for each in events(round_)))
    since = time.perf_counter()
    if verify_logs([long.path], Authors.of([roster])).findings:
        raise SystemExit("a log that was just written does not verify")
    return node, server, sizes, time.perf_counter() - since


def deployed_round(folder, clients, size):
    """Return the seconds of a round of real processes."""
    with Deployment(folder, nodes=clients, shards=2, min_crowd=clients // 2, app=APP) as deployment:
        out = folder / "out.json"
        settings = {"f2ed-roster": str(deployment.roster_path), "out": str(out), "size": size, "rounds": 3}
        lines = list(deployment.run(APP, settings))
        if not out.exists():
            raise SystemExit("\n".join(lines[-30:]))
        return statistics.median(json.loads(out.read_text())["f2ed"]["seconds"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=320_000)
    parser.add_argument("--no-round", action="store_true", help="do not start real processes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="f2ed-bench-") as folder:
        node, server, (at_node, sent, at_server), seconds = measured(Path(folder), given.clients, given.lines)
        print(f"{given.clients} clients, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        print(f"a node: {node:.2f} ms and {at_node} bytes a round, {sent} bytes with a reply")
        print(f"the server: {server:.2f} ms and {at_server} bytes a round")
        print(f"f2ed log verify: {given.lines} lines in {seconds:.2f} s")
        if not given.no_round:
            (Path(folder) / "deployment").mkdir()
            round_ = deployed_round(Path(folder) / "deployment", given.clients, given.size)
            share = (given.clients * node + server) / 1e3 / round_
            print(f"a deployed round of {given.size:,} coordinates: {round_:.2f} s; share of the log {share:.2%}")


if __name__ == "__main__":
    main()
