"""The server's memory in a round with a large model: bounded by a budget, whatever the number of shards.

    python benchmarks/server_memory.py [--coordinates 100000000] [--shards 25] [--budget 1000000000] [--folder .]

One process leads the rounds as a deployed server does: sums of uploads, means, FilterL2, the next model, its
checkpoint. The clients are files of words, read one at a time, so nothing of their training is counted; neither is
Flower's transport. The peak is the process's resident memory in that round, pages of mapped files included.
"""

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from threading import Lock

import msgspec
import numpy as np
from flwr.app import Array, ArrayRecord

from f2ed import FilterL2
from f2ed.core.spill import spill_beside
from f2ed.deployment.identity import roster_from
from f2ed.deployment.roster import round_task
from f2ed.flower.arrays import moved, update_plan
from f2ed.flower.checkpoint import Progress, save
from f2ed.protocol.aggregation import ServerStep, StepState, shard_means
from f2ed.protocol.secagg import read_request, write
from f2ed.protocol.secagg.messages import TAG_BYTES, Upload
from f2ed.protocol.secagg.terms import bind

MEMBERS = 4
FILES = 6
ARRAYS = 50


def write_words(folder, length):
    """Write the files that stand for uploads."""
    for number in range(FILES):
        rng = np.random.default_rng(number)
        with (folder / f"{number}.words").open("wb") as file:
            for start in range(0, length, 1 << 22):
                some = rng.integers(-2000, 2000, min(1 << 22, length - start), np.int32)
                # The last words count what was clipped.
                some[max(0, length - 100 - start) :] = 0
                file.write(some.view("<u4").data)


def reply(request, task, path):
    """Return the bytes of an upload."""
    tag = bind(read_request(request).terms, task.roster, task.model)[:TAG_BYTES]
    size, filler = path.stat().st_size, bytes(1 << 17)
    head = write(Upload(tag, memoryview(filler)))[: -len(filler) - 4] + struct.pack(">I", size)
    data = bytearray(len(head) + size)
    data[: len(head)] = head
    with path.open("rb") as file:
        file.readinto(memoryview(data)[len(head) :])
    return data


def lead(folder, coordinates, shards, budget, rounds):
    """Lead rounds; print the peak in bytes after each, and its seconds."""
    roster = roster_from(f"test:{MEMBERS * shards}/{shards}")
    zeros = np.zeros if budget is None else spill_beside(None, budget=budget, folder=folder)
    gate = nullcontext() if budget is None else Lock()
    sizes = [len(each) for each in np.array_split(np.empty(coordinates, np.int8), ARRAYS)]
    arrays = ArrayRecord({f"array_{k}": Array(np.ones(size, np.float32)) for k, size in enumerate(sizes)})
    plan = update_plan(arrays, None, clip_value=roster.encoding.to_encoding().clip_value)
    step, state = ServerStep(FilterL2(contamination=0.1), tensors=plan.sizes), StepState()
    for round_ in range(rounds):
        since = time.perf_counter()
        Path("/proc/self/clear_refs").write_text("5")  # Forget the peak of memory so far.
        task = round_task(roster, "memory", round_, model=bytes(32), coordinates=coordinates)
        task = msgspec.structs.replace(task, secure=False)

        def exchange(requests, task=task):
            for client, request in requests.items():
                with gate:
                    number = (client * 5 + client // MEMBERS) % FILES
                    yield client, reply(request, task, folder / f"{number}.words")

        means, audit = shard_means(exchange, roster.assignment(0), task, independent=True, zeros=zeros)
        assert len(audit.opened) == shards, audit.missing
        result = step(means, state, round_=round_)
        arrays, state = moved(arrays, result.step, plan), result.state
        del means, result
        save(folder / "checkpoint", Progress(round_ + 1, arrays, 0, state), roster=roster.name)
        peak = peak_of_round()
        print(json.dumps({"round": round_ + 1, "peak": peak, "seconds": time.perf_counter() - since}), flush=True)


def peak_of_round():
    """Return the most memory that was resident since the peak was forgotten, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coordinates", type=int, default=100_000_000)
    parser.add_argument("--shards", type=int, default=25)
    parser.add_argument("--budget", type=int, default=1_000_000_000, help="bytes")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--no-budget", action="store_true", help="keep all in memory, for comparison")
    parser.add_argument("--folder", type=Path, default=Path(), help="on a disk with room for the files")
    parser.add_argument("--quick", action="store_true", help="a small model")
    parser.add_argument("--lead", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    coordinates = 2_000_000 if given.quick else given.coordinates
    budget = None if given.no_budget else given.budget // 50 if given.quick else given.budget
    if given.lead:
        lead(given.folder, coordinates, given.shards, budget, given.rounds)
        return
    with tempfile.TemporaryDirectory(prefix="server-memory-", dir=given.folder) as folder:
        length = roster_from(f"test:{MEMBERS}/1").encoding.to_encoding().length(coordinates)
        write_words(Path(folder), length)
        command = [sys.executable, __file__, "--lead", "--folder", folder, "--coordinates", str(coordinates)]
        command += ["--shards", str(given.shards), "--rounds", str(given.rounds)]
        command += ["--no-budget"] if budget is None else ["--budget", str(budget)]
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()  # noqa: S603  itself
    model = 4 * coordinates
    limit = 3 * model + (budget or 0)
    print(f"{coordinates:,} parameters (a model of {model / 1e9:.2f} GB), {given.shards} shards of {MEMBERS}")
    print(f"sums and means together: {2 * given.shards * model / 1e9:.2f} GB; 3 models + budget: {limit / 1e9:.2f} GB")
    for line in map(json.loads, lines):
        print(
            f"round {line['round']}: {line['seconds']:.0f} s, peak {line['peak'] / 1e9:.2f} GB "
            f"= {line['peak'] / limit:.2f} of 3 models + budget"
        )


if __name__ == "__main__":
    main()
