"""The client."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from pytorchexample.task import Net, load_data
from pytorchexample.task import test as test_fn
from pytorchexample.task import train as train_fn

app = ClientApp()


def received(msg: Message, context: Context):
    """Return the model, the loaders of this node's data, and where to compute."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    place = context.node_config["partition-id"], context.node_config["num-partitions"]
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    return model, load_data(*place, context.run_config["batch-size"]), device


@app.train()
def train(msg: Message, context: Context):
    """Train the model on local data."""
    model, (trainloader, _), device = received(msg, context)
    loss = train_fn(model, trainloader, context.run_config["local-epochs"], msg.content["config"]["lr"], device)
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(trainloader.dataset)})
    return Message(content=RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    """Evaluate the model on local data."""
    model, (_, valloader), device = received(msg, context)
    loss, accuracy = test_fn(model, valloader, device)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(valloader.dataset)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
