"""The client."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from textexample.task import Classifier, load_data
from textexample.task import train as train_fn

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    torch.set_num_threads(1)
    net = Classifier()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict(), strict=True)
    batches = load_data(context.node_config["partition-id"], context.node_config["num-partitions"])
    loss = train_fn(net, batches, context.run_config["local-steps"], context.run_config["lr"])
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(batches) * 16})
    return Message(content=RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=msg)
