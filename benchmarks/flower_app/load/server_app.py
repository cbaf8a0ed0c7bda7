"""A round of f2ed, a round of FedAvg, and so on in turn, with the same nodes in the same run."""

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
    ours = F2ed(roster=settings["f2ed-roster"], estimator=Mean(), min_crowd=3, deadline=300.0, train_deadline=300.0)
    nodes = len(ours.roster.clients)
    plain = PlainFedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    arms = {"f2ed": Arm(), "fedavg": Arm()}

    zeros = ArrayRecord({"x": Array(np.zeros(size, np.float32))})
    # FedAvg goes on from its own last model, too: Flower sends equal parts of a model once, so zeros would be cheap.
    last = [zeros]

    def after(number, _arrays):
        """End a round of f2ed, let FedAvg have one, and begin the next."""
        if number:
            arms["f2ed"].end()
            ends = iter((arms["fedavg"].begin, arms["fedavg"].end))
            model = last.pop()
            result = plain.start(grid=grid, initial_arrays=model, num_rounds=1, evaluate_fn=lambda *_: next(ends)())
            last.append(result.arrays)
        arms["f2ed"].begin()

    # One round more, whose time is not used: the first one includes set-up, and loads the app everywhere.
    ours.start(grid=grid, initial_arrays=zeros, num_rounds=rounds + 1, evaluate_fn=after)
    found = {
        name: {"seconds": arm.seconds[1:], "first": arm.seconds[0], "peak": arm.peak} for name, arm in arms.items()
    }
    found["f2ed"]["bytes"] = ours.records[-1].bytes_up
    found["fedavg"]["bytes"] = 4 * size
    found["opened"] = [ours.roster.shards - len(each.excluded) for each in ours.records]
    Path(settings["out"]).write_text(json.dumps(found))


class Arm:
    """The rounds of one strategy: how long each took, and the most memory that the server held in any, in MB."""

    def __init__(self):
        self.seconds = []
        self.peak = 0.0

    def begin(self):
        Path("/proc/self/clear_refs").write_text("5")  # Forget the peak of memory so far.
        self._since = time.monotonic()

    def end(self):
        self.seconds.append(time.monotonic() - self._since)
        lines = Path("/proc/self/status").read_text().splitlines()
        peak = int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
        self.peak = max(self.peak, peak)
