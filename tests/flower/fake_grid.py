"""Flower's grid without processes: every node runs its app in this process when its messages are pulled."""

import copy
import os
from types import SimpleNamespace

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from f2ed import Mean
from f2ed.deployment.keyfiles import write_new, write_pair
from f2ed.deployment.roster import signed, write_roster
from f2ed.deployment.train_input import run_digest
from f2ed.deployment.training_rules import ANYTHING
from f2ed.flower import Entry, F2ed, Roster, protect
from f2ed.flower.handover import train_input
from f2ed.protocol.secagg import choose_mode, public_key
from f2ed.protocol.sharding import Fixed

FIRST_NODE = 2**63 + 5
"""Flower's node ids do not fit into a signed number of 64 bits."""


def model(size=23):
    return ArrayRecord(
        {
            "weight": Array(np.linspace(-1, 1, size, dtype=np.float32).reshape(-1, 1)),
            "count": Array(np.array([7], dtype=np.int64)),
            "bias": Array(np.zeros(3, dtype=np.float32)),
        }
    )


def fingerprint(arrays, config=None, run_config=None):
    """Return what the masks are bound to: the digest of all that a training function is given."""
    given = ConfigRecord({"server-round": 1} if config is None else config)
    return train_input(arrays, given).digest(run_digest(run_config or {}))


def change(client, round_, size=26):
    """What a client's training does to the model in a round."""
    return np.random.default_rng([client, round_]).normal(0, 0.01, size).astype(np.float32)


def trained(arrays, step):
    weight = arrays["weight"].numpy() + step[:-3].reshape(-1, 1)
    bias = arrays["bias"].numpy() + step[-3:]
    return ArrayRecord({"weight": Array(weight), "count": Array(np.array([8])), "bias": Array(bias)})


def user_app(seen=None, fault=None, extra=(), reply=None, measure=None):
    """An app as users write it, with the one line that protects it.

    It adds 0.01 to the arrays named `extra`, and the records of `reply` to its reply. `measure` gives the metrics of a
    client in a round.
    """
    app = ClientApp(mods=[protect])

    @app.train()
    def train(message, context):
        if fault:
            fault(message, context)
        round_ = message.content["config"]["server-round"]
        before = message.content["arrays"]
        after = trained(before, change(context.node_config["partition-id"], round_))
        if seen is not None:
            seen.append((context.node_config["partition-id"], round_, after))
        for name in extra:
            values = before[name].numpy()
            after[name] = Array(np.asarray(values + 0.01, values.dtype))
        return Message(RecordDict({"arrays": after} | (reply or {})), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        round_, client = message.content["config"].get("server-round"), context.node_config["partition-id"]
        found = {} if measure is None else {"metrics": MetricRecord(measure(client, round_))}
        return Message(RecordDict(found), reply_to=message)

    return app


class Node:
    """A SuperNode: it keeps its context from message to message, as Flower does."""

    def __init__(self, partition, app, node_config=None, run_config=None):
        self.partition = partition
        self.app = app
        self.node_config = {"partition-id": partition} | (node_config or {})
        self.run_config = run_config or {}
        self.state = RecordDict()
        self.connected = True
        self.tamper = None
        """Changes a reply, or returns None to swallow it."""
        self.received = 0

    def answer(self, node_id, run_id, message):
        self.received += 1
        context = Context(run_id, node_id, self.node_config, self.state, self.run_config)
        try:
            reply = self.app(copy.deepcopy(message), context)
        except Exception as error:  # noqa: BLE001  as Flower does it
            reply = Message(Error(code=3, reason=str(error)), reply_to=message)
        self.state = context.state
        return self.tamper(message, reply) if self.tamper else reply


class FakeGrid(Grid):
    def __init__(self, nodes, run_id=77):
        self.nodes = {FIRST_NODE + place: node for place, node in enumerate(nodes)}
        self._run = SimpleNamespace(run_id=run_id)
        # Messages take their sender from the process, which Flower tells who it is.
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run_id, 1, 1
        self._waiting = {}
        self.sent = []
        self.replies = []
        self.pushes = 0

    def set_run(self, run):
        self._run = run

    @property
    def run(self):
        return self._run

    def create_message(self, *args, **kwargs):
        raise NotImplementedError

    def get_node_ids(self):
        return [node_id for node_id, node in self.nodes.items() if node.connected]

    def push_messages(self, messages):
        self.pushes += 1
        ids = []
        for message in messages:
            number = f"message {len(self.sent)}"
            message.metadata.__dict__["_message_id"] = number
            self.sent.append(message)
            self._waiting[number] = message
            ids.append(number)
        return ids

    def pull_messages(self, message_ids):
        found = []
        for number in message_ids:
            message = self._waiting.pop(number, None)
            if message is None:
                continue
            node_id = message.metadata.dst_node_id
            reply = self.nodes[node_id].answer(node_id, self._run.run_id, message)
            if reply is not None:
                self.replies.append(reply)
                found.append(reply)
        return found

    def send_and_receive(self, messages, *, timeout=None):  # noqa: ARG002  everyone answers at once
        return self.pull_messages(self.push_messages(messages))


def real_roster(folder, count, *, shards, min_crowd=3, name="clinics", fields=None, weights=None, **settings_of_roster):
    """Make keys and a signed roster in a folder; return the roster and the node-config of each client.

    `fields` are others of the roster; by default the server may send any setting, and nodes run any app.
    """
    authority = os.urandom(32)
    write_pair(folder / "authority.key", authority)
    entries, settings = [], []
    for client in range(count):
        key = os.urandom(32)
        write_pair(folder / f"client_{client}.key", key)
        entries.append(Entry(client, f"client_{client}", public_key(key), weight=(weights or {}).get(client, 1)))
        settings.append(
            {
                "f2ed-key": str(folder / f"client_{client}.key"),
                "f2ed-roster": str(folder / "roster.json"),
                "f2ed-authority": str(folder / "authority.pub"),
                "f2ed-keys": str(folder / f"client_{client}.state"),
            }
        )
    given = {"training": ANYTHING} | (fields or {})
    schedule, mode = settings_of_roster.get("schedule", Fixed()), settings_of_roster.get("mode", "auto")
    alone = not isinstance(schedule, Fixed) or choose_mode(mode, count // shards) == "dropout-tolerant"
    if alone and settings_of_roster.get("group_size", 1) < 3:
        # As in the papers: single clients are resharded, or drop out, and nobody minds what that reveals.
        settings_of_roster = {"group_size": 1} | settings_of_roster
        given["accepted"] = ("leak", "differences", *given.get("accepted", ()))
    if "apps" not in given:
        given["accepted"] = ("unpinned-app", *given.get("accepted", ()))
    draft = Roster(name=name, authority=public_key(authority), clients=tuple(entries), **given)
    chain = os.urandom(32)
    write_new(folder / "authority.chain", chain.hex().encode(), secret=True)
    roster = signed(draft, authority, shards=shards, min_crowd=min_crowd, seed=chain, **settings_of_roster)
    write_roster(folder / "roster.json", roster)
    return roster, settings


def server(roster, **settings):
    return F2ed(
        **{
            "roster": roster,
            "estimator": Mean(),
            "min_crowd": 3,
            "deadline": 0.2,
            "train_deadline": 0.2,
            "max_wait": 2,
            "max_skipped": 1,
        }
        | settings
    )


def vector(arrays):
    return np.concatenate([arrays["weight"].numpy().ravel(), arrays["bias"].numpy().ravel()])


def moved_by(shards_of_each_round):
    """Return where the model is after rounds in which these shards opened."""
    place = vector(model())
    for round_, shards in enumerate(shards_of_each_round, 1):
        means = [np.mean([change(client, round_) for client in shard], axis=0) for shard in shards]
        if means:
            place = place + np.mean(means, axis=0)
    return place


def silence(_message, _reply):
    return None


def opened(leader, place=-1):
    """Return the shards that opened in a round that a server led."""
    return [shard for shard in range(leader.roster.shards) if shard not in leader.records[place].excluded]
