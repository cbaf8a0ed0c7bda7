"""The server."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from sklearnexample.task import create_log_reg_and_instantiate_parameters, get_model_params

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the app."""
    model = create_log_reg_and_instantiate_parameters(context.run_config["local-epochs"])
    arrays = ArrayRecord(get_model_params(model))
    strategy = FedAvg(fraction_train=context.run_config["fraction-train"])
    result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=context.run_config["num-server-rounds"])
    print(f"{len(result.arrays)} arrays were learned")  # noqa: T201  as such apps do
