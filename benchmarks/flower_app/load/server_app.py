"""Some rounds of FedAvg, some of f2ed, with the same nodes in the same run."""

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from f2ed import Mean
from f2ed.flower import F2ed

app = ServerApp()


class PlainFedAvg(FedAvg):
    """FedAvg that asks for the unprotected training function."""

    def configure_train(self, server_round, arrays, config, grid):
        messages = list(super().configure_train(server_round, arrays, config, grid))
        for message in messages:
            message.metadata.message_type = "train.plain"
        return messages


@app.main()
def main(grid, context):
    settings = context.run_config
    rounds, size = settings["rounds"], settings["size"]
    found = {}
    ours = F2ed(roster=settings["f2ed-roster"], estimator=Mean(), min_crowd=3, deadline=300.0, train_deadline=300.0)
    nodes = len(ours.roster.clients)
    plain = PlainFedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    for name, strategy in (("fedavg", plain), ("f2ed", ours)):
        times = [time.monotonic()]
        start = ArrayRecord({"x": Array(np.zeros(size, np.float32))})
        Path("/proc/self/clear_refs").write_text("5")  # Forget the peak of memory so far.
        # One round more, whose time is not used: the first one includes set-up, and loads the app everywhere.
        strategy.start(
            grid=grid,
            initial_arrays=start,
            num_rounds=rounds + 1,
            evaluate_fn=lambda *_, t=times: t.append(time.monotonic()),
        )
        found[name] = {"seconds": np.diff(times)[2:].tolist(), "first": times[2] - times[1], "peak": peak()}
    found["f2ed"]["bytes"] = ours.reports[-1].bytes_up / nodes
    found["fedavg"]["bytes"] = 4 * size
    found["opened"] = [len(each.opened) for each in ours.reports]
    Path(settings["out"]).write_text(json.dumps(found))


def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
