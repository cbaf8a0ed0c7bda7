"""Leads rounds with helpers, and reports how each ended."""

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord
from flwr.serverapp import ServerApp

from f2ed.flower import HelpedRounds

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    while len(list(grid.get_node_ids())) < config["nodes"]:
        time.sleep(0.5)
    rounds = HelpedRounds(grid, roster=config["f2ed-roster"], server_key=config["server-key"])
    arrays, ended = ArrayRecord({"x": Array(np.zeros(40, np.float32))}), []
    for number in range(1, config["num-rounds"] + 1):
        since = time.monotonic()
        arrays, outcome = rounds.lead(arrays, ConfigRecord(), number)
        seconds = time.monotonic() - since
        ended.append({"aborted": outcome.aborted, "kept": outcome.kept, "seconds": seconds})
        report = {"ended": ended, "x": arrays["x"].numpy().tolist()}
        Path(config["report"]).write_text(json.dumps(report))
