"""A shard in memory: honest clients, and hooks to drop, replace or corrupt whatever travels."""

import hashlib
from collections.abc import Callable

import msgspec
import numpy as np

from f2ed.core.randomness import stream
from f2ed.protocol.primitives.hybrid import Encapsulated, encapsulate
from f2ed.protocol.secagg import Member, Terms, public_key, respond, scheme_of, secure_sum
from f2ed.protocol.secagg import state as client_state
from f2ed.protocol.secagg.schemes import phases
from tests.protocol.primitives.mlkem_reference import seeded

MODEL = hashlib.sha256(b"the global model").digest()
STEPS = {
    "all-or-nothing": ("key", "wraps", "chains", "upload"),
    "dropout-tolerant": ("advertise", "share", "upload", "confirm", "reveal"),
    "clear": ("upload",),
}


def secret(*name) -> bytes:
    """Return 32 bytes that only look like entropy: the tests are exact."""
    return hashlib.sha256("/".join(map(str, name)).encode()).digest()


def load(data: bytes, job: str):
    """Read a client's state, in any phase of any scheme."""
    return client_state.load(data, job, phases())


def make_terms(members, mode="dropout-tolerant", **changes) -> Terms:
    threshold, min_crowd = scheme_of(mode).quorum(len(members), changes.get("colluders", 0))
    settings = {
        "job": "test",
        "epoch": 0,
        "round": 0,
        "shard": 0,
        "members": tuple(members),
        "mode": mode,
        "threshold": threshold,
        "min_crowd": min_crowd,
        "length": 20,
        "ring": 32,
        "bits": 16,
        "clip_value": 1.0,
        "clip_norm": 10.0,
    }
    return Terms(**(settings | changes))


class Shard:
    """Clients with ids 1 … size that keep their states between rounds.

    `drop(step, client)` keeps a reply back; `request` and `reply` rewrite what travels, as a lying server or a
    malicious client would: each is called with (step, client, bytes) and returns bytes.
    `exact` makes ML-KEM ciphertexts that repeat, for vectors: slowly, in plain Python.
    """

    def __init__(self, size: int, mode="dropout-tolerant", seed=0, member=None, exact=False, **changes):
        ids = range(1, size + 1)
        self.seed, self.exact = seed, exact
        self.signing = {i: secret(seed, "identity", i) for i in ids}
        self.roster = {i: public_key(self.signing[i]) for i in ids}
        self.terms = make_terms(ids, mode, **changes)
        self.members = {
            i: Member(id=i, signing_key=self.signing[i], roster=self.roster, job="test", **(member or {})) for i in ids
        }
        self.states = dict.fromkeys(ids, b"")
        self.refusals: dict[int, str] = {}
        self.models = dict.fromkeys(ids, MODEL)
        self.uploads: dict[int, bytes] = {}
        self.keys = None
        high = 2 ** min(self.terms.ring, 63)
        dtype = {16: np.uint16, 64: np.uint64}.get(self.terms.ring, np.uint32)
        self.vectors = {i: stream(seed, "vector", i).integers(0, high, self.terms.length, dtype=dtype) for i in ids}
        self.calls = 0
        self.encapsulated: dict[int, list[tuple[str, str]]] = {}

    def respond(self, client: int, request: bytes) -> bytes:
        self.calls += 1
        answer = respond(
            self.members[client],
            self.states[client],
            request,
            model=self.models[client],
            contribution=lambda terms: self.vectors[client].copy(),  # noqa: ARG005
            entropy=secret(self.seed, "entropy", client, self.calls),
            encapsulate=lambda public: self._encapsulate(client, public),
        )
        self.states[client] = answer.state
        if answer.refusal is not None:
            self.refusals[client] = answer.refusal
        return answer.reply

    def _encapsulate(self, client: int, public: bytes) -> Encapsulated:
        """Make a ciphertext, and note it by client."""
        make = seeded(self.seed, "encapsulation", client, self.calls) if self.exact else encapsulate
        made = make(public)
        self.encapsulated.setdefault(client, []).append((made.ciphertext.hex(), made.secret.hex()))
        return made

    def run(
        self,
        drop: Callable[[str, int], bool] = lambda step, client: False,  # noqa: ARG005
        request: Callable[[str, int, bytes], bytes] = lambda step, client, data: data,  # noqa: ARG005
        reply: Callable[[str, int, bytes], bytes] = lambda step, client, data: data,  # noqa: ARG005
        terms: Terms | None = None,
    ):
        """Run one round one reply at a time, and return the server's outcome."""
        terms = terms or self.terms
        server = secure_sum(terms, self.roster, model=MODEL, keys=self.keys)
        steps = list(STEPS[terms.mode])
        if self.keys is not None:
            steps = ["upload"]
        try:
            requests = next(server)
            for step in steps:
                following = {}
                for client, asked in requests.items():
                    if drop(step, client):
                        continue
                    answer = reply(step, client, self.respond(client, request(step, client, asked)))
                    if step == "upload":
                        self.uploads[client] = answer
                    following = server.send({client: answer})
                requests = following or server.send({})
        except StopIteration as stop:
            if terms.mode == "all-or-nothing":
                self.keys = stop.value.keys
            return stop.value
        raise AssertionError("the server asked for more steps than the protocol has")

    def next_round(self):
        """Return the terms of the round after."""
        self.terms = msgspec.structs.replace(self.terms, round=self.terms.round + 1)
        return self.terms

    def sum_of(self, clients) -> list[int]:
        modulus = 2**self.terms.ring
        return [sum(int(self.vectors[i][k]) for i in clients) % modulus for k in range(self.terms.length)]

    def total_of(self, outcome) -> list[int]:
        return [int(word) % 2**self.terms.ring for word in outcome.total]
