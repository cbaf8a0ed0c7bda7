"""Model inconsistency: the true model to one victim, a dead one to the others (Pasquini et al., CCS 2022).

Where no neuron of the first layer fires, its gradient is zero: the shard's sum is then the victim's update, however
large the shard. The protocol binds masks to the model that a client received, so the sum over clients with different
models is noise. Both cases run the protocol's real client and server in memory; the malicious server also forges the
tag by which its own code would detect the mismatch.
"""

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from f2ed.audit.inversion import first_dense
from f2ed.audit.server_view import ServerView, update
from f2ed.core.errors import PeerError
from f2ed.learning import Data, Samples, flatten
from f2ed.protocol.aggregation import Protocol, Task, contribution, shard_means
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.protocol.secagg import Member, Ring, Upload, Words, encapsulate, public_key, read_reply, respond, write
from f2ed.protocol.secagg.schemes import AllOrNothing
from f2ed.protocol.sharding import ClientId, assign_shards

__all__ = ["InconsistentRound", "send_different_models"]

_DEAD = -1e3
_ENCODING = Encoding(clip_value=1.0)
_UNBOUND = bytes(32)


@dataclass(frozen=True, eq=False)
class InconsistentRound:
    """The outcome: whether the shard opened, or why not, and what the server makes of the sum."""

    opened: bool
    reason: str
    view: ServerView


def send_different_models(
    model: nn.Module, shard: list[Samples], data: Data, rng: np.random.Generator, *, bound: bool, lr: float = 0.1
) -> InconsistentRound:
    """Run one round in which client 0 is the victim; with fewer than three members no client takes part.

    `bound` is the real protocol. Without it all clients bind the same digest, as in a protocol that leaves the model
    out.
    """
    dead = copy.deepcopy(model)
    with torch.no_grad():
        dict(dead.named_parameters())[f"{first_dense(dead)}.bias"].fill_(_DEAD)
    given = [model, *[dead] * (len(shard) - 1)]
    updates = [update(own, samples, lr=lr) for own, samples in zip(given, shard, strict=True)]
    digests = [_digest(own) if bound else _UNBOUND for own in given]
    clients = _Clients(updates, digests, rng)
    task = Task(
        job="audit",
        round=0,
        model=digests[0],
        coordinates=len(updates[0]),
        encoding=_ENCODING,
        roster=clients.roster,
        protocol=Protocol(mode=AllOrNothing.mode),
    )
    plan = assign_shards(clients.roster, shards=1, epoch=0, seed=b"")
    means, audit = shard_means(clients, plan, task, threads=1)
    mean = torch.from_numpy(means[0] if len(means) else clients.raw_sum()) * (len(shard) if len(means) else 1)
    # If the attack works, the sum is the victim's update alone.
    view = ServerView(mean, model, 1, len(shard[0]), lr, 1, data.black, data.white)
    return InconsistentRound(bool(len(means)), "; ".join(audit.missing.values()), view)


class _Clients:
    """The clients, and the malicious server's forgery between them and the protocol."""

    def __init__(self, updates: list[NDArray[np.float32]], digests: list[bytes], rng: np.random.Generator) -> None:
        self._keys = [rng.bytes(32) for _ in updates]
        self.roster: dict[ClientId, bytes] = {client: public_key(key) for client, key in enumerate(self._keys)}
        self._states = [b""] * len(updates)
        self._updates, self._digests, self._rng = updates, digests, rng
        self._ring = _ENCODING.ring_for(len(updates))
        self._sum: Words = self._ring.zeros(_ENCODING.length(len(updates[0])))
        self._tag: bytes | None = None

    def __call__(self, requests: Mapping[ClientId, bytes]) -> dict[ClientId, bytes]:
        return {client: self._forged(self._answer(client, request)) for client, request in sorted(requests.items())}

    def raw_sum(self) -> NDArray[np.float32]:
        """Return the sum of the uploads, whether or not an honest shard could have sent it."""
        coordinates = len(self._updates[0])
        return (self._ring.signed(self._sum)[:coordinates] * _ENCODING.unit).astype(np.float32)

    def _answer(self, client: ClientId, request: bytes) -> bytes:
        member = Member(id=client, signing_key=self._keys[client], roster=self.roster, job="audit")
        answer = respond(
            member,
            self._states[client],
            request,
            model=self._digests[client],
            contribution=contribution(self._updates[client], client, key=self._rng.bytes(32)),
            entropy=self._rng.bytes(32),
            encapsulate=encapsulate,
            threads=1,
        )
        self._states[client] = answer.state
        return answer.reply

    def _forged(self, reply: bytes) -> bytes:
        """Give every upload the victim's tag, and keep the sum; pass on everything else."""
        try:
            upload = read_reply(Upload, reply, payload=len(reply))
        except PeerError:
            return reply
        self._tag = self._tag or bytes(upload.tag)
        Ring.add_packed(self._ring, self._sum, upload.payload)
        return write(Upload(self._tag, upload.payload))


def _digest(model: nn.Module) -> bytes:
    return hashlib.sha256(flatten(model).numpy().tobytes()).digest()
