import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp

from f2ed import Mean
from f2ed.flower import F2ed

app = ServerApp()


@app.main()
def main(grid, context):
    settings = context.run_config
    strategy = F2ed(
        roster=settings["f2ed-roster"],
        estimator=Mean(),
        mode=settings["f2ed-mode"],
        min_crowd=3,
        deadline=settings["train-deadline"],
        train_deadline=settings["train-deadline"],
        wait_for_nodes=settings["wait"],
        checkpoint=settings["f2ed-checkpoint"],
        audit=settings["f2ed-audit"],
    )
    start = ArrayRecord({"x": Array(np.zeros(settings["size"], np.float32))})
    result = strategy.start(grid=grid, initial_arrays=start, num_rounds=settings["num-rounds"])
    np.save(settings["out"], result.arrays["x"].numpy())
