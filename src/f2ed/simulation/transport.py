"""All clients of a simulation in this process, behind the same exchange that a deployment has over a network.

Every client runs the protocol's own code on its own state, under keys from `os.urandom`; only the network is missing.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from time import perf_counter

import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.protocol.aggregation import contribution
from f2ed.protocol.primitives.hybrid import Encapsulate, HybridKey, PrivateKeys
from f2ed.protocol.secagg import Member, Terms, Words, encapsulate, public_key, respond
from f2ed.protocol.sharding import ClientId
from f2ed.simulation.loaded_keys import LoadedKeys

__all__ = ["MemoryExchange", "SimulatedClients"]

Updates = npt.NDArray[np.float32]


class SimulatedClients:
    """The clients with their identity keys, made when they first take part; one object serves a whole run."""

    def __init__(
        self, job: str, *, shard_of: Callable[[ClientId, int], tuple[ClientId, ...]], workers: int = 1
    ) -> None:
        self._job, self._shard_of = job, shard_of
        self.roster: dict[ClientId, bytes] = {}
        self.members: dict[ClientId, Member] = {}
        self.workers = self.busy = workers
        """How many answer at a time; one by one while they agree on keys, which holds the interpreter's lock."""
        self.kept: dict[ClientId, bytes] = {}
        """The states of the clients that hold keys of an epoch; the others start every round without one."""
        self.private_keys: PrivateKeys = HybridKey
        self.encapsulate: Encapsulate = encapsulate
        """While keys are agreed on, both are those of `LoadedKeys`."""

    def enroll(self, clients: Iterable[ClientId]) -> None:
        """Make the keys of those that have none yet."""
        for client in clients:
            if client not in self.members:
                key = os.urandom(32)
                self.roster[client] = public_key(key)
                self.members[client] = Member(
                    id=client,
                    signing_key=key,
                    roster=self.roster,
                    job=self._job,
                    shard=partial(self._shard_of, client),
                    clear=True,
                )

    @contextmanager
    def new_epoch(self, holders: Iterable[ClientId]) -> Iterator[None]:
        """Discard all states; from now on these clients keep theirs from round to round. Inside, they agree on keys."""
        self.kept = dict.fromkeys(holders, b"")
        keys = LoadedKeys()
        self.private_keys, self.encapsulate, self.busy = keys.load, keys.encapsulate, 1
        try:
            yield
        finally:
            self.private_keys, self.encapsulate, self.busy = HybridKey, encapsulate, self.workers


class MemoryExchange:
    """One round's exchange: each client answers with its row of the updates, a few clients at a time.

    `rows` says which row of the updates is whose.
    Clients in `silent` do not answer; a client whose update is not finite is added to it, with the reason. `waited`
    is the time that the server spent waiting for clients.
    """

    def __init__(
        self,
        clients: SimulatedClients,
        updates: Updates,
        rows: Mapping[ClientId, int],
        *,
        model: bytes,
        seed: int,
        round_: int,
    ) -> None:
        self.silent: dict[ClientId, str] = {}
        self.waited = 0.0
        self._clients = clients
        self._states: dict[ClientId, bytes] = {}
        self._updates, self._rows = updates, rows
        self._model = model
        self._seed, self._round = seed, round_

    def __call__(self, requests: Mapping[ClientId, bytes]) -> Iterator[tuple[ClientId, bytes]]:
        """Yield the replies in the order of the requests; hardly more of them exist at once than there are workers."""
        asked = [(client, request) for client, request in requests.items() if client not in self.silent]
        replies = self._replies(asked, self._clients.busy)
        since = perf_counter()
        for client, reply in replies:
            self.waited += perf_counter() - since
            if reply is not None:
                yield client, reply
            since = perf_counter()

    def _replies(
        self, asked: Iterable[tuple[ClientId, bytes]], workers: int
    ) -> Iterator[tuple[ClientId, bytes | None]]:
        if workers == 1:  # threads would only wait for each other
            yield from ((client, self._reply(client, request)) for client, request in asked)
            return
        rest = iter(asked)
        pending: deque[tuple[ClientId, Future[bytes | None]]] = deque()
        with ThreadPoolExecutor(workers) as pool:
            for client, request in islice(rest, workers + 1):
                pending.append((client, pool.submit(self._reply, client, request)))
            while pending:
                client, future = pending.popleft()
                reply = future.result()
                del future
                yield client, reply
                del reply
                for following, request in islice(rest, 1):
                    pending.append((following, pool.submit(self._reply, following, request)))

    def _reply(self, client: ClientId, request: bytes) -> bytes | None:
        states = self._clients.kept if client in self._clients.kept else self._states
        try:
            answer = respond(
                self._clients.members[client],
                states.get(client, b""),
                request,
                model=self._model,
                contribution=partial(self._encoded, client),
                entropy=os.urandom(32),
                encapsulate=self._clients.encapsulate,
                threads=1,
                private_keys=self._clients.private_keys,
            )
        except ConfigError as error:
            self.silent[client] = str(error)
            return None
        states[client] = answer.state
        return answer.reply

    def _encoded(self, client: ClientId, terms: Terms) -> Words:
        rounding = stream(self._seed, "rounding", self._round, client).bytes(32)
        return contribution(self._updates[self._rows[client]], client, key=rounding)(terms)
