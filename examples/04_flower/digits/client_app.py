"""The client: an ordinary Flower app, protected by one mod."""

import torch
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from digits.task import attack, load, make_model, train
from f2ed.flower import protect

app = ClientApp(mods=[protect])


@app.train()
def fit(message: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    model = make_model()
    before = message.content["arrays"].to_torch_state_dict()
    model.load_state_dict(before)
    partition = int(context.node_config["partition-id"])
    images, labels = load(partition, int(context.node_config["num-partitions"]))
    train(model, images, labels, epochs=int(context.run_config["local-epochs"]), lr=float(context.run_config["lr"]))
    if partition < int(context.run_config["malicious"]):
        attack(model, before)
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict())}), reply_to=message)
