"""What f2ed costs over plain FedAvg on Flower: the same nodes, the same app, one run, TLS and authentication on.

    python benchmarks/flower.py [--sizes 320000 10000000] [--rounds 5] [--preload none] [--quick]

Rounds of the two take turns, so that whatever else the machine does slows both alike. The ratio is the median over
pairs of rounds that follow one another; the smallest and the largest stand beside it.
"""

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path

from f2ed.flower.local_deployment import Deployment

APP = Path(__file__).resolve().parent / "flower_app"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[320_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--preload", default="auto", help="as of f2ed node, for the apps of both")
    parser.add_argument("--quick", action="store_true", help="one round of one size")
    given = parser.parse_args()
    sizes, rounds = (given.sizes[:1], 1) if given.quick else (given.sizes, given.rounds)
    print(f"{given.nodes} nodes in 2 shards on loopback, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print("d           FedAvg s   f2ed s   ratio (pairs)        bytes up   server peak MB FedAvg / f2ed   set-up s")
    with tempfile.TemporaryDirectory(prefix="f2ed-bench-") as folder, nodes(Path(folder), given) as deployment:
        for size in sizes:
            out = Path(folder) / f"{size}.json"
            settings = {"f2ed-roster": str(deployment.roster_path), "out": str(out), "size": size, "rounds": rounds}
            lines = list(deployment.run(APP, settings))
            if not out.exists():
                raise SystemExit("\n".join(lines[-30:]))
            found = json.loads(out.read_text())
            plain, ours = found["fedavg"], found["f2ed"]
            if any(opened != 2 for opened in found["opened"]):
                raise SystemExit(f"shards that opened, by round: {found['opened']}; all must")
            one, other = statistics.median(plain["seconds"]), statistics.median(ours["seconds"])
            ratios = [b / a for a, b in zip(plain["seconds"], ours["seconds"], strict=True)]
            print(
                f"{size:<10,}  {one:8.1f} {other:8.1f} {statistics.median(ratios):7.2f} "
                f"({min(ratios):.2f}–{max(ratios):.2f})  {ours['bytes'] / plain['bytes']:12.2f} "
                f"{plain['peak']:16.0f} / {ours['peak']:.0f}"
                f"  {ours['first'] - other:20.1f}",
                flush=True,
            )


def nodes(folder, given):
    """Return a deployment whose nodes run the apps of both."""
    made = Deployment(folder, nodes=given.nodes, shards=2, min_crowd=given.nodes // 2, app=APP)
    made.node_options = ["--preload", given.preload]
    return made


if __name__ == "__main__":
    main()
