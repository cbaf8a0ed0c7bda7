"""Each client adds a vector of its own; on a helper's node the same app carries bytes."""

import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from f2ed.flower import protect

app = ClientApp(mods=[protect])


@app.train()
def train(message, context):
    before = message.content["arrays"]["x"].numpy()
    after = before + np.float32(0.01 * (1 + context.node_config["partition-id"]))
    return Message(RecordDict({"arrays": ArrayRecord({"x": Array(after)})}), reply_to=message)
