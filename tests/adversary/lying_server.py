"""A server that sends each member of a shard whatever it likes, and keeps all that comes back.

The nodes are real: `protect`, key files, state files and a signed roster, in one all-or-nothing shard of four.
"""

import copy

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from f2ed import PeerError
from f2ed.deployment.roster import round_task
from f2ed.flower import protect
from f2ed.flower.wire import reply_bytes
from f2ed.protocol.aggregation import terms_of
from f2ed.protocol.aggregation.task import agreed_encoding
from f2ed.protocol.primitives.ring import Ring
from f2ed.protocol.quantization.encoding import decode_mean
from f2ed.protocol.secagg.messages import AskUpload, Upload, read_reply, write
from tests.flower.fake_grid import FakeGrid, Node, real_roster
from tests.protocol.secagg.agree import agree

RUN, SIZE, MEMBERS = 7, 40, 4
VICTIM = 2


def secret(client):
    """What a client's data does to the model, at a learning rate of 1."""
    return np.random.default_rng(client).normal(0, 0.01, SIZE).astype(np.float32)


def model():
    return ArrayRecord({"x": Array(np.linspace(-1, 1, SIZE, dtype=np.float32)), "n": Array(np.array([3, 4]))})


def app_with(rate, *, faults=None):
    """Return an app whose learning rate is whatever `rate` makes of the message and the context.

    `faults` are functions that some clients call in place of training.
    """
    app = ClientApp()
    app.rates = []

    def train(message, context):
        if fault := (faults or {}).get(context.node_config["partition-id"]):
            return fault(message)
        step = np.float32(rate(message, context)) * secret(context.node_config["partition-id"])
        after = message.content["arrays"].copy()
        after["x"] = Array(after["x"].numpy() + step)
        app.rates.append(float(step @ step > 0))
        return Message(RecordDict({"arrays": after}), reply_to=message)

    app.train(mods=[protect])(train)
    app.train("other", mods=[protect])(lambda message, context: train(with_action(message), context))
    app.evaluate()(remember)
    return app


def with_action(message):
    message.content["config"]["lr"] = 0.0
    return message


def remember(message, context):
    """Let a message that is no training leave something in the node's state."""
    context.state["left"] = ConfigRecord({"lr": message.content["config"]["lr"]})
    return Message(RecordDict({}), reply_to=message)


def training_request(config=None, arrays=None, **records):
    """Return the content of a message as the strategy makes it, and whatever else is named."""
    given = {"server-round": 1, "lr": 1.0} if config is None else config
    return RecordDict({"arrays": model() if arrays is None else arrays, "config": ConfigRecord(given), **records})


class LyingServer:
    """Leads one round with a request of its own for each member."""

    def __init__(self, folder, app, *, rules=None, **fields):
        given = fields if rules is None else fields | {"training": rules}
        self.roster, settings = real_roster(folder, MEMBERS, shards=1, fields=given)
        self.nodes = [Node(client, app, settings[client], {"lr": 1.0}) for client in range(MEMBERS)]
        self.app = app
        FakeGrid(self.nodes, RUN)
        self.later(0)

    def later(self, round_):
        """Go to another round."""
        task = round_task(self.roster, self.roster.job(RUN), round_, model=bytes(32), coordinates=SIZE)
        self.terms = terms_of(self.roster.assignment(round_), task, 0)
        self.replies = {}
        return self

    def message(self, client, content, kind="train", **metadata):
        """Return a message, and the context in which it reaches its node."""
        message = Message(content, client + 1, kind)
        message.metadata.__dict__ |= {"_message_id": "a message"} | {f"_{name}": to for name, to in metadata.items()}
        node = self.nodes[client]
        return message, Context(RUN, client + 1, node.node_config, node.state, node.run_config)

    def send(self, client, content, kind="train", **metadata):
        message, _ = self.message(client, content, kind, **metadata)
        return self.nodes[client].answer(client + 1, RUN, message)

    def answer(self, client, content):
        """Return the bytes of a reply to any content."""
        return reply_bytes(self.send(client, content))

    def ask(self, client, request, content=None, **message):
        content = RecordDict() if content is None else copy.deepcopy(content)
        content["f2ed"] = ConfigRecord({"request": write(request), "model": bytes(32)})
        return reply_bytes(self.send(client, content, **message))

    def lead(self, to_victim, to_others, *, victim=None, others=None):
        """Ask for keys, then for uploads; `victim` and `others` are changes to the metadata of their messages."""
        refusals = {}
        try:
            keys = agree(self.terms, self.roster.keys, self.ask, refusals)
        except PeerError as error:
            raise PeerError(f"{error}: {refusals}") from None
        for client in range(MEMBERS):
            content, changes = (to_victim, victim) if client == VICTIM else (to_others, others)
            self.replies[client] = self.ask(client, AskUpload(self.terms, *keys), content, **(changes or {}))
        return self

    def upload(self, client):
        """Return a client's upload, or raise `PeerError` with its reason."""
        return read_reply(Upload, self.replies[client], payload=10**6)

    def opened(self):
        """Return the sum of all uploads, as the server decodes it, or None where it is garbage."""
        ring = Ring(self.terms.ring)
        total = ring.zeros(self.terms.length)
        for client in range(MEMBERS):
            ring.add_packed(total, self.upload(client).payload)
        try:
            mean = decode_mean(total, agreed_encoding(self.terms, SIZE), clients=MEMBERS, survivors=MEMBERS).mean
        except PeerError:
            return None
        return mean * MEMBERS
