"""What a round costs: RiseFL's own benchmark beside a round with helpers: python benchmarks/rivals/risefl.py LOG ...

A log is what RiseFL's `bench_no_mal` (C++) printed for 100 clients, with a line `DIM d SAMPLES k` before each size
(README.md says how it was run). Ours is benchmarks/helpers.py for the same sizes; all times are CPU seconds.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def read(log):
    """Return coordinates, samples, seconds of a client and seconds of the server for each size in a log."""
    for part in log.split("DIM ")[1:]:
        d, k = map(int, re.match(r"(\d+) SAMPLES (\d+)", part).groups())
        client, server = (float(each) for each in re.findall(r"Total: ([\d.e+-]+) seconds", part))
        yield {"clients": 100, "coordinates": d, "samples": k, "client_s": client, "server_s": server}


def ours(d):
    command = [sys.executable, "helpers.py", "--clients", "100", "--coordinates", str(d), "--json"]
    return json.loads(subprocess.run(command, cwd=HERE.parent, check=True, capture_output=True, text=True).stdout)  # noqa: S603  ours


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/side_by_side/risefl.json"))
    args = parser.parse_args()
    rows = [
        {"risefl": each, "helpers": ours(each["coordinates"])} for log in args.logs for each in read(log.read_text())
    ]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
