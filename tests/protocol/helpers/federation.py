"""A whole round in memory: clients, mixer, judge and server, each of whom a test may replace by a liar."""

import hashlib

import numpy as np

from f2ed.estimators import FilterL2
from f2ed.protocol.helpers import (
    JUDGE,
    MIXER,
    ROLES,
    HelpedClient,
    Helper,
    MemoryRows,
    ServerTask,
    Terms,
    begin_job,
    helped_mean,
    respond_as_client,
    respond_as_judge,
    respond_as_mixer,
    rule_bytes,
)
from f2ed.protocol.primitives.crypto import public_key
from f2ed.protocol.primitives.hybrid import encapsulate

POLICY = hashlib.sha256(b"policy").digest()
MODEL = hashlib.sha256(b"model").digest()
EPOCH = 10
RESPOND = {MIXER: respond_as_mixer, JUDGE: respond_as_judge}


def fixed(*parts):
    """Return 32 bytes that follow from the parts."""
    return hashlib.sha256(repr(parts).encode()).digest()


class Federation:
    """n clients and three parties with fixed keys; `answer` hooks let tests lie in the name of anyone."""

    def __init__(self, clients=10, coordinates=50, seed=0, **changes):
        self.seed = seed
        self.ids = tuple(range(clients))
        self.client_keys = {i: fixed("client", i) for i in self.ids}
        self.roster = {i: public_key(key) for i, key in self.client_keys.items()}
        self.party_keys = {role: fixed("party", role) for role in ROLES}
        self.changes = {
            "coordinates": coordinates,
            "clip_norm": 1.0,
            "rule": rule_bytes(FilterL2(contamination=0.1)),
            "crowd": max(3, clients // 2),
            "step": 2,
            "sketch": 384,
            "spot": 3,
            "accusations": 3,
            "agreement": "x25519",
        } | changes
        self.states = {MIXER: begin_job(POLICY, "job"), JUDGE: begin_job(POLICY, "job")}
        self.client_states = {}
        self.before, self.struck = None, ()
        self.log = []
        self.counter = 0

    def terms(self, round_=0, **changes):
        stated = {
            "policy": POLICY,
            "job": "job",
            "epoch": round_ // EPOCH,
            "round": round_,
            "epoch_rounds": EPOCH,
            "members": self.ids,
            "operators": ("A", "B", "C"),
            "keys": tuple(public_key(self.party_keys[role]) for role in ROLES),
        }
        return Terms(**(stated | self.changes | changes))

    def helper(self, role):
        return Helper(
            role=role,
            operator="ABC"[ROLES.index(role)],
            signing_key=self.party_keys[role],
            roster=self.roster,
            policy=POLICY,
            job="job",
        )

    def half(self, role, terms):
        return fixed("half", self.seed, role, terms.round, terms.epoch)

    def halves(self, terms):
        return self.half(MIXER, terms), self.half(JUDGE, terms)

    def fresh(self):
        self.counter += 1
        return fixed("entropy", self.seed, self.counter)

    def client_reply(self, i, request, numbers):
        client = HelpedClient(
            id=i,
            signing_key=self.client_keys[i],
            roster=self.roster,
            policy=POLICY,
            job="job",
            parties=tuple(public_key(self.party_keys[role]) for role in ROLES),
        )
        answer = respond_as_client(
            client,
            self.client_states.get(i, b""),
            request,
            model=MODEL,
            numbers=lambda _: numbers,
            entropy=self.fresh(),
            encapsulate=encapsulate,
        )
        self.client_states[i] = answer.state
        return answer.reply

    def helper_reply(self, role, request, terms):
        answer = RESPOND[role](
            self.helper(role), self.states[role], request, entropy=self.fresh(), half=self.half(role, terms)
        )
        self.states[role] = answer.state
        return answer.reply

    def task(self, terms, rows=None):
        return ServerTask(
            terms=terms,
            roster=self.roster,
            model=MODEL,
            signing_key=self.party_keys["server"],
            entropy=self.fresh(),
            rows=rows or MemoryRows(),
            before=self.before,
            struck=self.struck,
        )

    def run(self, numbers, *, terms=None, tamper=None):
        """Run a round with these encoded updates; `tamper(party, request, reply)` may change or drop a reply."""
        terms = terms or self.terms()
        server = helped_mean(self.task(terms))
        requests = next(server)
        while True:
            replies = {}
            for party, request in requests.items():
                self.log.append((party, request))
                if isinstance(party, str):
                    reply = self.helper_reply(party, request, terms)
                elif party in numbers:
                    reply = self.client_reply(party, request, numbers[party])
                else:
                    continue
                reply = tamper(party, request, reply) if tamper else reply
                if reply is not None:
                    replies[party] = reply
            try:
                requests = server.send(replies)
                if not requests:
                    requests = server.send({})
            except StopIteration as stop:
                outcome = stop.value
                break
        if outcome.kept:
            self.before = outcome.kept
        self.struck = tuple(sorted({*self.struck, *outcome.struck}))
        return outcome


def updates(ids, coordinates, seed=0, *, long=()):
    """Return honest encoded updates around a common mean, with a length of about half the clip."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=coordinates)
    found = {}
    for i in ids:
        row = common + rng.normal(size=coordinates)
        row *= 2**19 / np.linalg.norm(row)
        found[i] = np.rint(row * (30 if i in long else 1)).astype(np.int64)
    return found
