"""What the benchmarks share: a fair stopwatch, peak memory in a fresh process, and tables."""

import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path


def milliseconds(work, budget=1.0, most=15, clock=time.perf_counter):
    """Return the median time of a call, after one call to warm up, within about `budget` seconds.

    On a busy machine `clock = time.process_time` counts the CPU time of all threads instead.
    """
    started = clock()
    work()
    first = clock() - started
    if first > budget:
        return first * 1e3
    times = []
    while len(times) < most and (len(times) < 3 or sum(times) < budget):
        started = clock()
        work()
        times.append(clock() - started)
    return statistics.median(times) * 1e3


def peak_bytes():
    """Return the most memory this process has held so far.

    Linux tells it of this program alone; the portable figure is inherited from the parent process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def in_fresh_process(script, *arguments):
    """Run a benchmark file in a process of its own and return the JSON it prints last."""
    command = [sys.executable, str(Path(script)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  our own file
    return json.loads(done.stdout.splitlines()[-1])


def table(header, rows):
    """Print a Markdown table."""
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(_cell(value) for value in row) + " |")
    print()


def _cell(value):
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value)
