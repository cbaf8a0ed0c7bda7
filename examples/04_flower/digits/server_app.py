"""The server: an ordinary Flower app, whose strategy is F2ed."""

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from digits.task import accuracy, load, make_model
from f2ed import FilterL2
from f2ed.flower import F2ed

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    torch.set_num_threads(1)
    settings = context.run_config
    server_key = settings["f2ed-server-key"]
    strategy = F2ed(
        roster=settings["f2ed-roster"],
        # With helpers the server has a key, and the roster names the rule.
        estimator=None if server_key else FilterL2(contamination=float(settings["contamination"])),
        server_key=server_key or None,
        mode=settings["f2ed-mode"],
        min_crowd=int(settings["f2ed-min-crowd"]),
        checkpoint=settings["f2ed-checkpoint"],
        records=settings["f2ed-records"],
    )
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(make_model().state_dict()),
        num_rounds=int(settings["num-rounds"]),
        evaluate_fn=evaluate,
    )
    print(f"f2ed: finished: {result.evaluate_metrics_serverapp[int(settings['num-rounds'])]}")


def evaluate(_number: int, arrays: ArrayRecord) -> MetricRecord:
    model = make_model()
    model.load_state_dict(arrays.to_torch_state_dict())
    return MetricRecord({"accuracy": accuracy(model, *load())})
