import time

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from f2ed.flower import protect
from sums.desk import Desk
from sums.obey import hang, obey
from sums.task import change

app = ClientApp()
kept = []  # What was trained stays in this process, for a search to find.


@app.train(mods=[obey, protect])
def protected(message, context):
    return train(message, context)


@app.train("plain", mods=[obey])
def plain(message, context):
    return train(message, context)


def train(message, context):
    me, round_ = context.node_config["partition-id"], message.content["config"]["server-round"]
    if context.run_config["desk"] and Desk(context.run_config["desk"]).take(f"orders/{me}.train") == "hang":
        hang()
    time.sleep(context.run_config["train-seconds"])
    after = message.content["arrays"]["x"].numpy() + change(me, round_)
    kept.append(after)
    content = {"arrays": ArrayRecord({"x": Array(after)}), "metrics": MetricRecord({"num-examples": 1})}
    return Message(RecordDict(content), reply_to=message)
