"""A lying server: the true model to one victim, a dead one to the others (Pasquini et al., CCS 2022).

Where no neuron of the first layer fires, its gradient is zero: the shard's sum is then the victim's own, however large
the shard. The protocol binds masks to the model that a client was given, so that the sum of clients with different
models is noise. Both are played here with the real client and server of the protocol, in memory; the server
goes as far as it can, forging the tag by which its own code would notice.
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
from f2ed.audit.server_view import View, update
from f2ed.core.errors import PeerError
from f2ed.learning import Data, Samples, flatten
from f2ed.protocol.aggregation import Protocol, Task, contribution, shard_means
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.protocol.secagg import Member, Ring, Upload, Words, public_key, read_reply, respond, write
from f2ed.protocol.secagg.schemes import AllOrNothing
from f2ed.protocol.sharding import ClientId, assign_shards

__all__ = ["Lie", "lie"]

_DEAD = -1e3
_ENCODING = Encoding(clip_value=1.0)
_UNBOUND = bytes(32)


@dataclass(frozen=True, eq=False)
class Lie:
    """What the lie brought: whether the shard opened, or why not, and the view that the server makes of the sum."""

    opened: bool
    reason: str
    view: View


def lie(
    model: nn.Module, shard: list[Samples], data: Data, rng: np.random.Generator, *, bound: bool, lr: float = 0.1
) -> Lie:
    """Play one round in which client 0 is the victim; three members at least, or no client takes part.

    `bound` is the protocol as it is. Without it all clients are made to bind the same digest, as in a protocol that
    leaves the model out.
    """
    dead = copy.deepcopy(model)
    with torch.no_grad():
        dict(dead.named_parameters())[f"{first_dense(dead)}.bias"].fill_(_DEAD)
    given = [model, *[dead] * (len(shard) - 1)]
    updates = [update(own, samples, lr=lr) for own, samples in zip(given, shard, strict=True)]
    digests = [_digest(own) if bound else _UNBOUND for own in given]
    players = _Players(updates, digests, rng)
    task = Task(
        job="audit",
        round=0,
        model=digests[0],
        coordinates=len(updates[0]),
        encoding=_ENCODING,
        roster=players.roster,
        protocol=Protocol(mode=AllOrNothing.mode),
    )
    plan = assign_shards(players.roster, shards=1, epoch=0, seed=b"")
    means, audit = shard_means(players, plan, task, threads=1)
    mean = torch.from_numpy(means[0] if len(means) else players.raw_sum()) * (len(shard) if len(means) else 1)
    # What is left of the sum is the victim's update alone, or so the server hopes.
    view = View(mean, model, 1, len(shard[0]), lr, 1, data.black, data.white)
    return Lie(bool(len(means)), "; ".join(audit.missing.values()), view)


class _Players:
    """The clients, and the server's forger between them and the protocol."""

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
        """Return what the uploads add up to, whether or not an honest shard could have sent it."""
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
            threads=1,
        )
        self._states[client] = answer.state
        return answer.reply

    def _forged(self, reply: bytes) -> bytes:
        """Give every upload the victim's tag, and keep the sum; pass on all else."""
        try:
            upload = read_reply(Upload, reply, payload=len(reply))
        except PeerError:
            return reply
        self._tag = self._tag or bytes(upload.tag)
        Ring.add_packed(self._ring, self._sum, upload.payload)
        return write(Upload(self._tag, upload.payload))


def _digest(model: nn.Module) -> bytes:
    return hashlib.sha256(flatten(model).numpy().tobytes()).digest()
