"""Leads rounds with helpers, and leaves the model of each."""

import json
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp

from f2ed.flower import F2ed

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    written = Path(config["f2ed-records"]).with_suffix(".models")
    models = json.loads(written.read_text()) if written.exists() else {}
    strategy = F2ed(
        roster=config["f2ed-roster"],
        server_key=config["f2ed-server-key"],
        checkpoint=config["f2ed-checkpoint"],
        records=config["f2ed-records"],
        min_crowd=3,
        deadline=float(config["deadline"]),
    )

    def keep(number, arrays):
        models[str(number)] = arrays["x"].numpy().tolist()
        written.write_text(json.dumps(models))

    strategy.start(
        grid,
        ArrayRecord({"x": Array(np.zeros(config["size"], np.float32))}),
        num_rounds=config["num-rounds"],
        evaluate_fn=keep,
    )
