"""The cost of a key agreement per client in a simulation, and of the ratchet per round.

    python benchmarks/key_setup.py
    PYTHONPATH=OTHER/src python benchmarks/key_setup.py    # the same for another version

The shortest of several runs, in milliseconds of CPU time; clients and server together, as a simulation pays for them.
"""

import sys
from collections.abc import Iterator
from time import process_time

import numpy as np

from f2ed import Encoding
from f2ed.protocol.aggregation import Protocol, Task, set_up_keys, shard_means
from f2ed.protocol.sharding import assign_shards
from f2ed.simulation.transport import MemoryExchange, SimulatedClients

CLIENTS = {4: 40, 10: 40}
TIMES = 5


def measured(size: int, protocol: Protocol) -> tuple[float, float]:
    """Return milliseconds per client for the agreement, and for a round of ten coordinates after it."""
    count = CLIENTS[size]
    agreements, rounds, plans = [], [], []

    def shard_of(client: int, _round: int) -> tuple[int, ...]:
        return plans[-1].shards[plans[-1].shard_of(client)]

    for _ in range(TIMES):
        clients = SimulatedClients("job", shard_of=shard_of)
        clients.enroll(range(count))
        plan = assign_shards(clients.roster, shards=count // size, epoch=0, seed=bytes(32), min_size=3)
        plans.append(plan)
        task = Task(
            job="job", round=0, model=bytes(32), coordinates=10, encoding=Encoding(1.0), roster=clients.roster,
            protocol=protocol,
        )  # fmt: skip
        exchange = MemoryExchange(
            clients, np.zeros((count, 10), np.float32), range(count), model=bytes(32), seed=0, round_=0
        )
        start = process_time()
        with clients.new_epoch(range(count)):
            keys = dict(set_up_keys(exchange, plan, task).keys)
        between = process_time()
        _, audit = shard_means(exchange, plan, task, keys=keys)
        rounds.append(process_time() - between)
        agreements.append(between - start)
        assert len(audit.opened) == count // size
    return 1000 * min(agreements) / count, 1000 * min(rounds) / count


def kinds() -> Iterator[tuple[str, Protocol]]:
    """Yield the agreements that this version has."""
    known = Protocol.__struct_fields__
    for kind in ("x25519+mlkem768", "x25519") if "agreement" in known else ("x25519",):
        more = {"agreement": kind} if "agreement" in known else {}
        yield kind, Protocol(mode="all-or-nothing", **more)


if __name__ == "__main__":
    for size in CLIENTS:
        for kind, protocol in kinds():
            agreement, round_ = measured(size, protocol)
            sys.stdout.write(f"s = {size}, {kind}: agreement {agreement:.2f} ms, first round {round_:.2f} ms\n")
