"""The client."""

import warnings

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from sklearnexample.task import (
    create_log_reg_and_instantiate_parameters,
    get_model_params,
    load_data,
    set_model_params,
)

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    model = create_log_reg_and_instantiate_parameters(context.run_config["local-epochs"])
    set_model_params(model, msg.content["arrays"].to_numpy_ndarrays())
    x_train, _, y_train, _ = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x_train, y_train)
    metrics = MetricRecord({"num-examples": len(x_train), "train_accuracy": model.score(x_train, y_train)})
    content = RecordDict({"arrays": ArrayRecord(get_model_params(model)), "metrics": metrics})
    return Message(content=content, reply_to=msg)
