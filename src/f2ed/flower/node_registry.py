"""Which node is which client: Flower assigns node ids, the roster identifies clients by their keys.

Nodes say hello without anybody waiting for a silent one: who has not answered takes part as soon as it has. A client
that was late or refused says hello again before it is asked for anything else, so a node that hangs costs one deadline.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Container, Mapping
from logging import INFO, WARNING, getLogger
from typing import NamedTuple

from flwr.app import ConfigRecord, Message

from f2ed.core.errors import PeerError
from f2ed.deployment.hello import REFUSED, Hello, HelperHello, hello_text, read_hello
from f2ed.deployment.pace import Pace
from f2ed.deployment.roster import HelperRole, Roster
from f2ed.deployment.train_input import run_digest
from f2ed.flower.helper_nodes import HelperNodes
from f2ed.flower.transport import Connection, Deadlines
from f2ed.flower.wire import reply_bytes, request_content
from f2ed.protocol.primitives.crypto import verify
from f2ed.protocol.sharding import ClientId

__all__ = ["NodeRegistry"]

_log = getLogger("f2ed.flower")

_HELLO = "hello"
_FIRST_PAUSE, _MAX_PAUSE = 0.05, 0.5
_MAX_CALLS = 4
"""A node that refused is asked again after at most this many rounds."""
_MAX_FRUITLESS = 3
"""How often rounds wait for new nodes that turn out to be silent."""
_MAX_SKEW = 60.0
"""Seconds by which a node's clock may differ without a remark."""


class _Greeting(NamedTuple):
    node: int
    nonce: bytes
    since: float
    sent_at: float
    """By the clock of the wall, to compare it with the node's."""


class NodeRegistry:
    """Asks every new node which client it is and remembers the answer, which must be signed with the roster's key."""

    def __init__(self, connection: Connection, roster: Roster, job: str, *, pace: Pace, deadlines: Deadlines) -> None:
        self._connection = connection
        self._roster = roster
        self._names = {entry.id: entry.name for entry in roster.clients}
        self._job = job
        self._pace = pace
        self._deadlines = deadlines
        self.helpers = HelperNodes(roster, job)
        self._clients: dict[int, ClientId] = {}
        self._run_configs: dict[int, bytes] = {}
        self._last: dict[ClientId, int] = {}
        self._connected: set[int] = set()
        self._greetings: dict[str, _Greeting] = {}
        self._awaited: set[int] = set()
        """Nodes that a round has waited for once."""
        self._fruitless = 0
        self._suspended: dict[int, str] = {}
        """Nodes of clients that must say hello again first, and why."""
        self._calls = 0
        self._refusals: dict[int, int] = {}
        self._again: dict[int, int] = {}
        """The call that asks a refusing node again: the more often it refused, the later."""
        self._reconnected: set[ClientId] = set()
        self._wrong: dict[ClientId, str] = {}
        """Why a client is absent whose hello was not acceptable."""
        self.strangers: dict[int, str] = {}
        """Nodes that are not clients, and why."""

    def present(self, meanwhile: Callable[[dict[ClientId, int]], None] = lambda _: None) -> dict[ClientId, int]:
        """Return the node of every client that takes part now; wait for new nodes once, as long as others needed."""
        self._calls += 1
        self.poll()
        expected = {each.node for each in self._greetings.values()} & self._connected - self._awaited
        self._awaited |= expected
        if expected and self._fruitless < _MAX_FRUITLESS:
            self._wait_for(expected, meanwhile)
        return self._there()

    @property
    def connected(self) -> int:
        """How many nodes are connected, clients or not."""
        return len(self._connected)

    def poll(self) -> None:
        """Say hello to nodes that are new or must answer again, and take what others have answered meanwhile."""
        listed = self._connection.node_ids()
        connected = set(listed)
        back = connected - self._connected
        self._reconnected |= {self._clients[node] for node in back if node in self._clients}
        self._connected = connected
        self._again |= dict.fromkeys(back, 0)
        self._greet(listed)
        for reply in self._connection.pull(list(self._greetings)):
            if greeting := self._greetings.pop(reply.metadata.reply_to_message_id, None):
                self._hear(greeting, reply)

    def suspend(self, faults: Mapping[ClientId, str], nodes: dict[ClientId, int], late: Container[ClientId]) -> None:
        """Ask clients for nothing before they have said hello again.

        The next round waits for the hello of those that answered something wrong, but not for those that were late: a
        node that hangs has cost one deadline already, and takes part again once it answers.
        """
        for client, why in faults.items():
            if client in nodes:
                self._suspended[nodes[client]] = why
                if client in late:
                    self._awaited.add(nodes[client])
                else:
                    self._awaited.discard(nodes[client])

    def resume(self, node: int) -> None:
        """End the suspension of a node that has shown otherwise that it answers."""
        self._suspended.pop(node, None)

    def client_of(self, node: int) -> ClientId | None:
        """Return the client of a node, if it is known."""
        return self._clients.get(node)

    def reconnected(self) -> set[ClientId]:
        """Return the clients that came back since the last call, under the same node id or another."""
        found, self._reconnected = self._reconnected, set()
        return found

    def absent(self) -> dict[ClientId, str]:
        """Return why the other clients take no part, as far as it is known."""
        there = self._there()
        reasons = {client: self._why(client) for client in self._roster.keys if client not in there}
        refused = self._refused()
        if refused:
            why = next(iter(refused.values())).removeprefix(f"{REFUSED}: ")
            hint = f"; or it is one of {len(refused)} connected nodes that refused: {why}"
            reasons = {c: why + hint if why == "not connected" else why for c, why in reasons.items()}
        return reasons

    def helpers_there(self) -> dict[HelperRole, int]:
        """Return the nodes of the helpers that are connected and have said who they are."""
        return self.helpers.there(self._connected)

    def absent_helpers(self) -> dict[str, str]:
        """Return which helpers of the roster are missing, by their names, and why."""
        found = self.helpers.absent(self._connected, self._refused())
        return {self.helpers.name(role): why for role, why in found.items()}

    def _refused(self) -> dict[int, str]:
        """Return what connected nodes said that refused."""
        return {n: why for n, why in self.strangers.items() if n in self._connected and why.startswith(REFUSED)}

    def _there(self) -> dict[ClientId, int]:
        # A client that reconnected under another node id has two entries; only a connected one counts, and of two
        # connected ones the last to answer.
        return {
            client: node
            for node, client in self._clients.items()
            if node in self._connected and node not in self._suspended
        }

    def _why(self, client: ClientId) -> str:
        for node, why in self._suspended.items():
            if self._clients.get(node) == client and node in self._connected:
                said = self.strangers.get(node, "")
                return f"asked again, {said}; before: {why}" if said.startswith(REFUSED) else f"silent since: {why}"
        return self._wrong.get(client, "not connected")

    def run_config(self) -> bytes:
        """Return the digest of the run's settings and app that most clients were given; those with others drop out.

        The server's own settings are not asked for: a strategy does not see them. A node binds what it was given, so a
        wrong answer closes shards and opens nothing.
        """
        latest = {client: node for node, client in self._clients.items()}  # One voice each, whatever nodes it has.
        counted = Counter(self._run_configs[node] for node in latest.values())
        return counted.most_common(1)[0][0] if counted else run_digest({})

    def next_round(self, following: int, *, malicious: int) -> int:
        """Return the number of the next round: `following`, or later if clients have answered later ones in other runs.

        Up to `malicious` clients, at least one, may lie about it to make the others refuse. So the largest claims, as
        many, do not count; an honest client that is ahead of the others refuses until they have caught up.
        """
        claims = sorted(self._last.values(), reverse=True)
        sure = claims[min(max(1, malicious), len(claims) - 1)] if claims else -1
        return max(following, self._roster.first_round, sure + 1)

    def claims_beyond(self, number: int) -> list[ClientId]:
        """Return the clients that have answered a round after this one, as they say."""
        return sorted(client for client, last in self._last.items() if last > number)

    def last_of(self, client: ClientId) -> int:
        """Return the last round that a client has answered, as it says."""
        return self._last[client]

    def _greet(self, connected: list[int]) -> None:
        now = time.monotonic()
        old = [each for each, (node, _, since, _) in self._greetings.items() if now - since > self._deadlines.step]
        for each in old:
            self._refuse(self._greetings.pop(each).node, f"no answer within {self._deadlines.step:g} s")
        waiting = {each.node for each in self._greetings.values()}
        nodes = [
            node
            for node in connected
            if node not in waiting
            and node not in self.helpers
            and (node not in self._clients or node in self._suspended)
            and self._calls >= self._again.get(node, 0)
        ]
        if not nodes:
            return
        nonces = {node: os.urandom(32) for node in nodes}
        contents = {node: request_content(ConfigRecord({"hello": nonce})) for node, nonce in nonces.items()}
        self._pace.ask(_HELLO, nodes)
        pushed = self._connection.push(contents, group=_HELLO, lifetime=self._deadlines.step)
        self._greetings |= {each: _Greeting(node, nonces[node], now, time.time()) for each, node in pushed.items()}

    def _wait_for(self, nodes: set[int], meanwhile: Callable[[dict[ClientId, int]], None]) -> None:
        """Wait until these have answered, or every client is there, or the others would have answered long ago."""
        since, pause, before = time.monotonic(), _FIRST_PAUSE, len(self._there())
        while nodes & {each.node for each in self._greetings.values()} and len(self._there()) < len(self._roster.keys):
            if time.monotonic() - since > self._deadlines.adapted(self._pace, _HELLO, self._deadlines.step):
                break
            time.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)
            self.poll()
            meanwhile(self._there())
        self._fruitless = 0 if len(self._there()) > before else self._fruitless + 1

    def _hear(self, greeting: _Greeting, reply: Message) -> None:
        node = greeting.node
        self._pace.observe(_HELLO, node, time.monotonic() - greeting.since)
        try:
            answer = read_hello(reply_bytes(reply))
            if isinstance(answer, HelperHello):
                self.helpers.hear(node, answer, greeting.nonce)
                self._forgive(node)
                return
            hello = self._checked(node, answer, greeting.nonce)
            self._connection.keep_line(hello.client, reply)
        except PeerError as error:
            self._refuse(node, str(error))
            return
        if not reply.has_error():
            self._check_clock(hello.client, greeting.sent_at, reply.metadata.created_at)
        self._forgive(node)
        self._suspended.pop(node, None)
        self._wrong.pop(hello.client, None)
        if hello.client in self._clients.values() and node not in self._clients:
            self._reconnected.add(hello.client)
        self._clients.pop(node, None)  # So that it stands behind other nodes of the same client.
        self._clients[node], self._run_configs[node] = hello.client, hello.run_config
        self._last[hello.client] = hello.last
        _log.log(INFO, "f2ed: node %s is client %s (%s)", node, hello.client, self._names[hello.client])

    def _forgive(self, node: int) -> None:
        self.strangers.pop(node, None)
        self._refusals.pop(node, None)

    def _check_clock(self, client: ClientId, sent: float, answered: float) -> None:
        """Say so if a node's clock is off: certificates and messages expire by it."""
        now = time.time()
        if sent - _MAX_SKEW <= answered <= now + _MAX_SKEW:
            return
        off = answered - now if answered > now else sent - answered
        _log.warning(
            "f2ed: the clock of client %s (%s) is %.0f s %s the server's; set it: messages expire by it",
            client,
            self._names[client],
            off,
            "ahead of" if answered > now else "behind",
        )

    def _refuse(self, node: int, why: str) -> None:
        self._refusals[node] = self._refusals.get(node, 0) + 1
        self._again[node] = self._calls + min(_MAX_CALLS, 2 ** self._refusals[node])
        self.strangers[node] = why
        _log.log(WARNING, "f2ed: node %s takes no part: %s", node, why)

    def _checked(self, node: int, hello: Hello, nonce: bytes) -> Hello:
        key = self._roster.keys.get(hello.client)
        if key is None:
            raise PeerError(f"it claims to be client {hello.client}, which is not on the roster")
        if hello.roster != self._roster.digest:
            # Not proved, and used only to say why a client is absent.
            self._wrong[hello.client] = (
                f"its node {node} holds another roster than this server; give both the same file"
            )
            raise PeerError(f"client {hello.client} holds another roster than this server; give both the same file")
        verify(key, hello_text(self._job, node, hello.client, hello.run_config, hello.last, nonce), hello.signature)
        return hello
