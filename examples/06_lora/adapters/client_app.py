"""The client: it has the base model, is given the adapters, and returns them trained."""

import torch
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from adapters.task import make_model, part_of, train
from f2ed.flower import protect

app = ClientApp(mods=[protect])


@app.train()
def fit(message: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    given = message.content["arrays"].to_torch_state_dict()
    base = str(context.run_config["base"])
    model = make_model(base)
    model.load_state_dict(given, strict=False)
    texts, classes = part_of(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]), base)
    train(model, texts, classes, epochs=int(context.run_config["local-epochs"]), lr=float(context.run_config["lr"]))
    trained = {name: value for name, value in model.state_dict().items() if name in given}
    return Message(RecordDict({"arrays": ArrayRecord(trained)}), reply_to=message)
