"""The server: only the adapters and the classifier travel, and it evaluates the whole model."""

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from adapters.task import TRAINED, accuracy, make_model
from f2ed import FilterL2
from f2ed.flower import F2ed

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    torch.set_num_threads(1)
    settings = context.run_config
    base = str(settings["base"])
    strategy = F2ed(
        roster=settings["f2ed-roster"],
        estimator=FilterL2(contamination=float(settings["contamination"])),
        min_crowd=int(settings["f2ed-min-crowd"]),
        trained_arrays=TRAINED,
        checkpoint=settings["f2ed-checkpoint"],
        records=settings["f2ed-records"],
    )

    def evaluate(_round: int, arrays: ArrayRecord) -> MetricRecord:
        model = make_model(base)
        model.load_state_dict(arrays.to_torch_state_dict())
        return MetricRecord({"accuracy": accuracy(model, base)})

    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(make_model(base).state_dict()),
        num_rounds=int(settings["num-rounds"]),
        evaluate_fn=evaluate,
    )
