import json
import os
from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()
MARK = "approved"


@app.query()
def query(message, context):
    folder = Path(context.run_config["folder"])
    (folder / f"{MARK}.{context.node_config['partition-id']}").write_text(os.environ.get("F2ED_APP", ""))
    if context.run_config["order"] == "fail":
        raise ValueError("the patient is called Doe")
    return Message(RecordDict({"found": ConfigRecord({"report": json.dumps(found(context))})}), reply_to=message)


def found(context):
    """Say which of the node's secrets this process can read, and what it knows by its environment."""
    parent = os.getppid()
    node = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
    keys, number = Path(context.run_config["keys"]), context.node_config["partition-id"]
    places = {
        "identity key": keys / f"client_{number}.key",
        "node key": keys / f"node_{number}",
        "node environment": Path(f"/proc/{node}/environ"),
        "node memory": Path(f"/proc/{node}/mem"),
    }
    return {
        "uid": os.getuid(),
        "settings": sorted(context.node_config),
        "readable": sorted(name for name, path in places.items() if readable(path)),
        "variables": sorted(os.environ),
        "arguments": Path("/proc/self/cmdline").read_bytes().decode().split("\0"),
        "home": os.environ["FLWR_HOME"],
    }


def readable(path):
    try:
        with path.open("rb", buffering=0) as file:
            return bool(file.read(1)) or True
    except PermissionError:
        return False
    except OSError:
        return True
