"""Many clients in Flower's simulation engine, some of whom fail in every round; prints what came of it as JSON."""

import json
import os
import resource
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
from flwr.app import Array, ArrayRecord, Message, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.serverapp import ServerApp  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402

from f2ed import Mean  # noqa: E402
from f2ed.flower import F2ed, protect  # noqa: E402

SIZE = 1000
FAILING = 0.05


def change(client, round_):
    return np.random.default_rng([client, round_]).normal(0, 0.01, SIZE).astype(np.float32)


def fails(client, round_):
    return np.random.default_rng([client, round_, 1]).random() < FAILING


def main():
    clients, shards, rounds, mode = (*map(int, sys.argv[1:4]), sys.argv[4])
    roster = os.environ["F2ED_ROSTER"] = f"test:{clients}/{shards}"
    server, client = ServerApp(), ClientApp(mods=[protect])

    @client.train()
    def train(message, context):
        me, round_ = context.node_config["partition-id"], message.content["config"]["server-round"]
        if fails(me, round_):
            raise RuntimeError("out of memory")
        after = message.content["arrays"]["x"].numpy() + change(me, round_)
        return Message(RecordDict({"arrays": ArrayRecord({"x": Array(after)})}), reply_to=message)

    found = {"peaks": []}

    @server.main()
    def lead(grid, _context):
        strategy = F2ed(roster=roster, estimator=Mean(), mode=mode, min_crowd=3, deadline=120, train_deadline=120)
        peaks = found["peaks"]
        result = strategy.start(
            grid,
            ArrayRecord({"x": Array(np.zeros(SIZE, np.float32))}),
            num_rounds=rounds,
            evaluate_fn=lambda *_: peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024),
        )
        found["error"] = float(np.abs(result.arrays["x"].numpy() - expected(strategy)).max())
        found["dropped"] = [sorted(each.dropped) for each in strategy.reports]
        found["failing"] = [[c for c in range(clients) if fails(c, r)] for r in range(1, rounds + 1)]
        found["opened"] = [len(each.opened) for each in strategy.reports]
        found["seconds"] = [each.seconds for each in strategy.reports]

    def expected(strategy):
        """Return where the survivors alone move the model, shard by shard."""
        place = np.zeros(SIZE)
        for number, each in enumerate(strategy.reports, 1):
            members = [strategy.roster.plan(0).shards[shard] for shard in each.opened]
            survivors = [[c for c in shard if not fails(c, number)] for shard in members]
            place += np.mean([np.mean([change(c, number) for c in shard], axis=0) for shard in survivors], axis=0)
        return place

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}}
    run_simulation(server, client, num_supernodes=clients, backend_config=resources)
    Path(sys.argv[5]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
