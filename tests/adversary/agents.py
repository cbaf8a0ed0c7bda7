"""The lying server's nodes with an agent each: the app's side holds the path of a socket, and no key."""

import os
import shutil
import socket
import tempfile
import threading
from pathlib import Path

from flwr.app import ConfigRecord, RecordDict

from f2ed.deployment.agent import Agent
from f2ed.deployment.agent.frames import receive, send
from f2ed.deployment.asked import Need, Reply
from f2ed.flower.handover import described
from f2ed.protocol.secagg.messages import AskUpload, write
from tests.adversary.lying_server import RUN, LyingServer, app_with, training_request
from tests.protocol.secagg.agree import agree

APP_HASH = bytes(range(32))
HONEST = training_request()


class Agents(LyingServer):
    """A lying server whose nodes were started by `f2ed node`; the launcher let in one run."""

    def __init__(self, folder, app=None, *, uid=None, more=None, **fields):
        super().__init__(folder, app or app_with(lambda *_: 1.0), **fields)
        self.approved = {RUN: APP_HASH}
        self.place = Path(tempfile.mkdtemp(prefix="f2ed-test-"))  # A socket's path is short.
        self.agents, self.settings = {}, {}
        for client, node in enumerate(self.nodes):
            ours = {name: value for name, value in node.node_config.items() if name.startswith("f2ed-")}
            agent = Agent(ours | (more or {}), self.approved.get, uid=os.geteuid() if uid is None else uid)
            self.settings[client] = ours
            path = self.place / str(client)
            agent.listen(path)
            self.agents[client] = agent
            node.node_config = {"partition-id": client, "f2ed-agent": str(path)}

    def close(self):
        shutil.rmtree(self.place, ignore_errors=True)

    def described(self, client, content, kind="train"):
        """Return what an honest app tells its agent about a message."""
        return described(*self.message(client, content, kind))[0]

    def upload_request(self, content=HONEST):
        """Agree on keys; return the content of a request for an upload."""
        keys = agree(self.terms, self.roster.keys, self.ask, {})
        return self.with_request(AskUpload(self.terms, *keys), content)

    def with_request(self, request, content=HONEST):
        return RecordDict({**content, "f2ed": ConfigRecord({"request": write(request), "model": bytes(32)})})

    def hello(self, nonce=bytes(32)):
        """Return the content of the server's question who this is."""
        return RecordDict({"f2ed": ConfigRecord({"hello": nonce})})

    def conversation(self, client):
        """Return a socket with the client's agent at its other end."""
        mine, theirs = socket.socketpair()
        threading.Thread(target=self.agents[client].serve, args=(theirs,), daemon=True).start()
        mine.settimeout(30)
        return mine


def told(app, message):
    """Send a message; return the answer."""
    send(app, message)
    return receive(app, Need | Reply, most=2**30)


def answer(app):
    return receive(app, Reply, most=2**30)
