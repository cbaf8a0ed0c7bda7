"""The client: honest, or malicious. `protect` masks what either of them sends."""

from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from blobs.task import attack, load, train
from f2ed.flower import protect

app = ClientApp(mods=[protect])


@app.train()
def fit(message: Message, context: Context) -> Message:
    me = int(context.node_config["partition-id"])
    before = message.content["arrays"]["weights"].numpy()
    after = train(before, *load(me))
    if me < int(context.run_config["malicious"]):
        after = attack(before, after)
    return Message(RecordDict({"arrays": ArrayRecord({"weights": Array(after)})}), reply_to=message)
