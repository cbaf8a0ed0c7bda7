import json
import time
from pathlib import Path

from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    while len(list(grid.get_node_ids())) < context.run_config["nodes"]:
        time.sleep(0.1)
    asked = [Message(RecordDict(), node, "query") for node in grid.get_node_ids()]
    replies = []
    for reply in grid.send_and_receive(asked, timeout=120):
        if reply.has_error():
            replies.append({"code": reply.error.code, "reason": reply.error.reason})
        else:
            replies.append({"report": json.loads(reply.content["found"]["report"])})
    Path(context.run_config["folder"], "replies.json").write_text(json.dumps(replies))
