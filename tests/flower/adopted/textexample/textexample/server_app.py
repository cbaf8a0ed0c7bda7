"""The server."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from textexample.task import Classifier, load_data, test

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the app."""
    strategy = FedAvg(fraction_train=context.run_config["fraction-train"])
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Classifier().state_dict()),
        num_rounds=context.run_config["num-server-rounds"],
        evaluate_fn=evaluate,
    )
    print(f"{len(result.arrays)} arrays were learned")  # noqa: T201  as such apps do


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Evaluate on the server."""
    net = Classifier()
    net.load_state_dict(arrays.to_torch_state_dict())
    return MetricRecord({"accuracy": test(net, load_data(0, 1)), "round": server_round})
