"""The process of an app, for one message: started anew, and forked from a fork server; with torch and without.

    python benchmarks/app_process.py [--messages 10]

Measures from the order to start it until it has ended: Python, Flower, f2ed, the modules that the app imports, and
nothing that the app does with them. Both kinds alternate in one run.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from f2ed.flower.fork_server import ForkServer

APP = """
import sys
from f2ed.flower import app_process, fork_server
app_process.run_clientapp.run_clientapp = lambda **_: __import__({module!r})
{begin}app_process.main()
"""
ADDRESS = "127.0.0.1:9"


def anew(module, home):
    """Start a process, wait for its end, and return its CPU seconds."""
    code = APP.format(module=module, begin="")
    process = subprocess.Popen(  # noqa: S603  our own command
        [sys.executable, "-P", "-c", code, ADDRESS, str(os.getpid())], stdin=subprocess.PIPE, cwd=home
    )
    process.stdin.write(b"token\n")
    process.stdin.close()
    return ended(process)


def ended(process):
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the process ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def forked(server, home):
    """Fork a process, wait for its end, and return its CPU seconds and those that forking took."""
    before = spent(server.pid)
    own = ended(server.fork(ADDRESS, home, "token"))
    return own + spent(server.pid) - before


def spent(pid):
    """Return the CPU seconds of a process and of those that it has waited for."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def memory(pid):
    """Return the megabytes that a process shares with no other that was started."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def measure(module, modules, messages, home):
    server = ForkServer(
        modules, program=("-c", APP.format(module=module, begin="if fork_server.serve(sys.argv[1:]): "))
    )
    server.start()
    found = {"started anew": [], "forked": []}
    for _ in range(messages):
        for name, run in (("started anew", lambda: anew(module, home)), ("forked", lambda: forked(server, home))):
            began = time.perf_counter()
            cpu = run()
            found[name].append((cpu, time.perf_counter() - began))
    held = memory(server.pid)
    server.close()
    (cold_cpu, cold), (warm_cpu, warm) = (
        [statistics.median(column) for column in zip(*rows, strict=True)] for rows in found.values()
    )
    print(
        f"| {module} | {cold_cpu:.2f} s | {warm_cpu:.2f} s | {cold_cpu / warm_cpu:.0f} | {cold:.2f} s | {warm:.2f} s | "
        f"{cold / warm:.0f} | {held:.0f} MB |",
        flush=True,
    )


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--messages", type=int, default=10)
    given = words.parse_args()
    print("| the app imports | CPU anew | CPU forked | ratio | time anew | time forked | ratio | fork server holds |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as home:
        measure("numpy", [], given.messages, Path(home))
        measure("torch", ["torch"], given.messages, Path(home))


if __name__ == "__main__":
    main()
