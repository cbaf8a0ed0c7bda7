"""Leads rounds in shards or with helpers, as the roster says; before each it waits for its turn."""

import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp

from f2ed.flower import F2ed

app = ServerApp()


@app.main()
def main(grid, context):
    settings = context.run_config
    folder = Path(settings["folder"])
    strategy = F2ed(
        roster=settings["f2ed-roster"],
        server_key=settings["f2ed-server-key"] or None,
        checkpoint=folder / "checkpoint",
        records=folder / "run.jsonl",
        min_crowd=3,
        malicious=0,
        deadline=600.0,
        train_deadline=600.0,
        max_skipped=1,
    )

    def wait_for_turn(number, _arrays):
        (folder / f"ended-{number}").touch()
        while not (folder / f"begin-{number + 1}").exists():
            time.sleep(0.02)

    arrays = ArrayRecord({"x": Array(np.zeros(settings["size"], np.float32))})
    strategy.start(grid, arrays, num_rounds=settings["rounds"], evaluate_fn=wait_for_turn)
