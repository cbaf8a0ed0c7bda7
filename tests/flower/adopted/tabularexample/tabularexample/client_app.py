"""The client."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from tabularexample.task import IncomeClassifier, load_data
from tabularexample.task import train as train_fn

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    torch.set_num_threads(1)
    model = IncomeClassifier()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    data = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
    loss = train_fn(model, data, context.run_config["lr"])
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(data[0])})
    return Message(content=RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=msg)
