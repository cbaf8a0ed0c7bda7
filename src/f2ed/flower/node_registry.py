"""Which node is which client: Flower assigns node ids, the roster identifies clients by their keys."""

import os
from collections import Counter
from logging import INFO, WARNING, getLogger

import msgspec
from flwr.app import ConfigRecord

from f2ed.core.errors import PeerError
from f2ed.deployment.roster import Roster
from f2ed.deployment.train_input import run_digest
from f2ed.flower.transport import Connection
from f2ed.flower.wire import Hello, hello_text, reply_bytes, request_content
from f2ed.protocol.primitives.crypto import verify
from f2ed.protocol.secagg import Refused
from f2ed.protocol.sharding import ClientId

__all__ = ["NodeRegistry"]

_log = getLogger("f2ed.flower")


class NodeRegistry:
    """Asks every new node which client it is and remembers the answer, which must be signed with the roster's key."""

    def __init__(self, connection: Connection, roster: Roster, job: str) -> None:
        self._connection = connection
        self._roster = roster
        self._job = job
        self._clients: dict[int, ClientId] = {}
        self._run_configs: dict[int, bytes] = {}
        self._last: dict[ClientId, int] = {}
        self._calls = 0
        self._refusals: dict[int, int] = {}
        self._again: dict[int, int] = {}
        """The call that asks a refusing node again: the more often it refused, the later."""
        self.strangers: dict[int, str] = {}
        """Nodes that are not clients, and why."""

    def present(self, *, deadline: float) -> dict[ClientId, int]:
        """Return the node of every client that is connected now, after asking those that are new."""
        connected = self._connection.node_ids()
        self._calls += 1
        new = [node for node in connected if node not in self._clients and self._calls >= self._again.get(node, 0)]
        if new:
            self._ask(new, deadline)
        # A client that reconnected under another node id has two entries; only a connected one counts, and of two
        # connected ones the last to answer.
        return {client: node for node, client in self._clients.items() if node in set(connected)}

    def run_config(self) -> bytes:
        """Return the digest of the run's settings and app that most clients were given; those with others drop out.

        The server's own settings are not asked for: a strategy does not see them. A node binds what it was given, so a
        wrong answer closes shards and opens nothing.
        """
        counted = Counter(self._run_configs[node] for node in self._clients)
        return counted.most_common(1)[0][0] if counted else run_digest({})

    def next_round(self, following: int, *, malicious: int) -> int:
        """Return the number of the next round: `following`, or later if clients have answered later ones in other runs.

        Up to `malicious` clients may lie about it, to make the others refuse. So the largest claims, as many, do not
        count; an honest client that is ahead of the others refuses until they have caught up.
        """
        claims = sorted(self._last.values(), reverse=True)
        sure = claims[min(malicious, len(claims) - 1)] if claims else -1
        return max(following, self._roster.first_round, sure + 1)

    def _ask(self, nodes: list[int], deadline: float) -> None:
        nonces = {node: os.urandom(32) for node in nodes}
        contents = {node: request_content(ConfigRecord({"hello": nonce})) for node, nonce in nonces.items()}
        silent, why = set(nodes), f"no answer within {deadline:g} s"
        heard: set[ClientId] = set()
        for node, reply in self._connection.ask(contents, group="hello", deadline=deadline):
            silent.discard(node)
            try:
                hello = self._checked(node, reply_bytes(reply), nonces[node])
                self._connection.keep_line(hello.client, reply)
            except PeerError as error:
                self._refuse(node, str(error))
            else:
                self.strangers.pop(node, None)
                self._clients[node], self._run_configs[node] = hello.client, hello.run_config
                self._last[hello.client] = hello.last
                _log.log(INFO, "f2ed: node %s is client %s", node, hello.client)
                heard.add(hello.client)
                # Once every client has just answered, nobody waits for a dead or unknown node. It is not enough that
                # every client is known: the SuperLink lists dead nodes for a while, and a new one may replace them.
                if heard.issuperset(self._roster.keys):
                    why = "no answer before every client on the roster had answered"
                    break
        for node in silent:
            self._refuse(node, why)

    def _refuse(self, node: int, why: str) -> None:
        self._refusals[node] = self._refusals.get(node, 0) + 1
        self._again[node] = self._calls + int(2 ** min(10, self._refusals[node]))
        self.strangers[node] = why
        _log.log(WARNING, "f2ed: node %s takes no part: %s", node, why)

    def _checked(self, node: int, reply: bytes, nonce: bytes) -> Hello:
        hello = _read(reply)
        key = self._roster.keys.get(hello.client)
        if key is None:
            raise PeerError(f"it claims to be client {hello.client}, which is not on the roster")
        if hello.roster != self._roster.digest:
            raise PeerError(f"client {hello.client} holds another roster than this server; give both the same file")
        verify(key, hello_text(self._job, node, hello.client, hello.run_config, hello.last, nonce), hello.signature)
        return hello


def _read(reply: bytes) -> Hello:
    if len(reply) > 1024:
        raise PeerError(f"an answer of {len(reply)} bytes to the question who it is")
    try:
        answer = msgspec.msgpack.decode(reply, type=Hello | Refused)
    except ValueError as error:
        raise PeerError(f"an answer that cannot be read: {error}") from None
    if isinstance(answer, Refused):
        raise PeerError(f"it refused: {answer.reason}")
    return answer
