"""A round with helpers in this process: clients, mixer and judge run the protocol's own code on their own states.

Keys and masks come from `os.urandom`. The two halves of the joint seed, which everybody learns in every round, come
from the run's own stream, so that a run in the clear has the same sketches, survivors and means.
"""

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.guarantees import Unopened
from f2ed.protocol.helpers import (
    JUDGE,
    MIXER,
    ROLES,
    SERVER,
    STRUCK,
    HelpedClient,
    Helper,
    HelpersOutcome,
    HelpersProtocol,
    MemoryRows,
    Party,
    Role,
    ServerGuard,
    ServerTask,
    Terms,
    continue_job,
    encoded,
    helped_mean,
    helper_terms,
    plain_mean,
    respond_as_client,
    respond_as_judge,
    respond_as_mixer,
)
from f2ed.protocol.helpers.terms import encoding_of
from f2ed.protocol.primitives.crypto import public_key
from f2ed.protocol.primitives.hybrid import encapsulate
from f2ed.protocol.sharding import Assignment, ClientId
from f2ed.simulation.config import Experiment
from f2ed.simulation.opened_rows import OpenedRows

__all__ = ["Helped", "everyone", "unsummed"]

_RESPOND = {MIXER: respond_as_mixer, JUDGE: respond_as_judge}
_LARGEST = 1 << 59
"""No coordinate of the field is larger, but for a factor of two."""


def everyone(clients: int) -> Assignment:
    """Return all clients as one shard: with helpers one sum is opened, of all or some of them."""
    return Assignment(shards=(tuple(range(clients)),), epoch=0, seed=b"", roster=b"")


def unsummed(rows: OpenedRows, clients: int) -> Unopened:
    """Return whom a round left out of its sum; without a sum, all."""
    if rows.kept is None:
        return Unopened((0,))
    return Unopened((), tuple(sorted(set(range(clients)) - set(rows.kept))))


class Helped:
    """All parties of a run with helpers; `attackers` send updates of any length if the settings say so."""

    def __init__(
        self, experiment: Experiment, settings: HelpersProtocol, job: str, attackers: Collection[ClientId] = ()
    ) -> None:
        self._experiment, self._settings, self._job = experiment, settings, job
        self._attackers = frozenset(attackers if experiment.unclipped else ())
        self._policy = hashlib.sha256(job.encode()).digest()
        self._client_keys = {client: os.urandom(32) for client in range(experiment.clients)}
        self._roster = {client: public_key(key) for client, key in self._client_keys.items()}
        self._party_keys = {role: os.urandom(32) for role in ROLES}

    def __call__(
        self,
        updates: Tensor,
        model: Tensor,
        round_: int,
        dropped: Mapping[ClientId, str],
        memory: ServerGuard,
    ) -> OpenedRows:
        """Run the protocol, or the same in the clear; the judge's estimate is the round's.

        `memory` holds survivors and strikes. The rule for what counts in which epoch is that of a deployment: the
        server's own, and that of each helper.
        """
        numbers, silent, since = {}, dict(dropped), perf_counter()
        rows = updates.cpu().numpy()
        terms = self._terms(round_, rows.shape[1])
        now = memory.within(terms.epoch)
        for client, row in enumerate(rows):
            if client in silent or client in now.struck:
                continue
            rounding = stream(self._experiment.seed, "rounding", round_, client).bytes(32)
            try:
                long = client in self._attackers and round_ >= self._experiment.attack_from
                numbers[client] = _at_full_length(row, terms) if long else encoded(row, key=rounding)(terms)
            except ConfigError as error:
                silent[client] = str(error)
        waited = perf_counter() - since
        if self._experiment.secure:
            digest = hashlib.sha256(model.cpu().numpy().tobytes()).digest()
            outcome, spent, bytes_up = self._secret(terms, numbers, memory, digest)
            waited += spent
        else:
            halves = self._halves(round_)
            outcome = plain_mean(terms, numbers, halves=halves, before=now.kept, struck=now.struck)
            bytes_up = 8 * terms.coordinates
        clipped = (client for client in numbers if client not in self._attackers)
        shortened = sum(float(np.linalg.norm(rows[client])) > terms.clip_norm for client in clipped)
        return _opened(outcome, silent, waited, bytes_up, rows.dtype)._replace(
            shortened=shortened, memory=now.after(outcome)
        )

    def _terms(self, round_: int, coordinates: int) -> Terms:
        it = self._experiment
        if it.clip_norm is None:
            raise ConfigError("clip_norm: the range tests of helpers need it; state about the norm of an honest update")
        parties = {role: Party(f"operator of the {role}", public_key(key)) for role, key in self._party_keys.items()}
        return helper_terms(
            self._settings,
            policy=self._policy,
            job=self._job,
            round_=round_,
            members=range(it.clients),
            coordinates=coordinates,
            clip_norm=it.clip_norm,
            rule=it.estimator,
            parties=parties,
        )

    def _halves(self, round_: int) -> tuple[bytes, bytes]:
        mixer, judge = (stream(self._experiment.seed, "helpers", role, round_).bytes(32) for role in (MIXER, JUDGE))
        return mixer, judge

    def _secret(
        self,
        terms: Terms,
        numbers: Mapping[ClientId, npt.NDArray[np.int64]],
        memory: ServerGuard,
        model: bytes,
    ) -> tuple[HelpersOutcome, float, int]:
        """Drive the server; return its outcome, the seconds that clients took, and the bytes that one sent."""
        mark = (memory.epoch, terms.round - 1) if terms.round else ()
        states = {
            role: continue_job(self._policy, self._job, mark=mark, kept=memory.kept, struck=memory.struck)
            for role in _RESPOND
        }
        now = memory.within(terms.epoch)
        halves = dict(zip(_RESPOND, self._halves(terms.round), strict=True))
        task = ServerTask(
            terms=terms,
            roster=self._roster,
            model=model,
            signing_key=self._party_keys[SERVER],
            entropy=os.urandom(32),
            rows=MemoryRows(),
            before=now.kept,
            struck=now.struck,
        )
        server, spent, sent = helped_mean(task), 0.0, 0
        requests = next(server)
        while True:
            replies: dict[Any, bytes] = {}
            for party, request in requests.items():
                if party in states:
                    answer = _RESPOND[party](
                        self._helper(party), states[party], request, entropy=os.urandom(32), half=halves[party]
                    )
                    states[party], replies[party] = answer.state, answer.reply
                elif party in numbers:
                    since = perf_counter()
                    replies[party] = self._upload(party, request, numbers[party], model)
                    spent += perf_counter() - since
                    sent = max(sent, len(replies[party]))
            try:
                requests = server.send(replies) or server.send({})
            except StopIteration as stop:
                return stop.value, spent, sent

    def _upload(self, client: ClientId, request: bytes, row: npt.NDArray[np.int64], model: bytes) -> bytes:
        server, mixer, judge = (public_key(self._party_keys[role]) for role in ROLES)
        known = HelpedClient(
            id=client,
            signing_key=self._client_keys[client],
            roster=self._roster,
            policy=self._policy,
            job=self._job,
            parties=(server, mixer, judge),
        )
        answer = respond_as_client(
            known,
            b"",
            request,
            model=model,
            numbers=lambda _: row,
            entropy=os.urandom(32),
            encapsulate=encapsulate,
        )
        return answer.reply

    def _helper(self, role: Role) -> Helper:
        return Helper(
            role=role,
            operator=f"operator of the {role}",
            signing_key=self._party_keys[role],
            roster=self._roster,
            policy=self._policy,
            job=self._job,
        )


def _at_full_length(row: npt.NDArray[np.float32], terms: Terms) -> npt.NDArray[np.int64]:
    """Encode an update without a clip, as a client with code of its own may."""
    steps = np.rint(row.astype(np.float64) / encoding_of(terms).unit)
    if not np.isfinite(steps).all():
        raise ConfigError("an update with NaN or infinite coordinates cannot be encoded")
    return np.clip(steps, -_LARGEST, _LARGEST).astype(np.int64)


def _opened(
    outcome: HelpersOutcome, silent: Mapping[ClientId, str], waited: float, bytes_up: int, dtype: np.dtype[Any]
) -> OpenedRows:
    """Return what the server has: one mean, and who is in it."""
    known = {client: why for client, why in silent.items() if outcome.dropped.get(client) != STRUCK}
    dropped = dict(sorted((dict(outcome.dropped) | known).items()))
    estimate = outcome.estimate
    return OpenedRows(
        np.zeros((0, 0), np.float32),
        outcome.compared,
        dict(sorted((outcome.absent | dropped).items())),
        dropped,
        protect=waited,
        kept=None if outcome.mean is None else outcome.kept,
        estimate=None if estimate is None else replace(estimate, mean=estimate.mean.astype(dtype)),
        skipped=outcome.aborted,
        bytes_up=bytes_up,
    )
