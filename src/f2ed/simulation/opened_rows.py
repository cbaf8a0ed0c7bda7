"""From the clients' updates to the rows that the estimator sees: shard means, or the updates themselves."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from torch import Tensor

from f2ed.estimators import Estimate
from f2ed.protocol.aggregation import (
    Audit,
    KeySetup,
    ShardAudit,
    Task,
    UpdatePlan,
    key_holders,
    row_weights,
    set_up_keys,
    shard_means,
    shard_terms,
)
from f2ed.protocol.helpers import ServerGuard
from f2ed.protocol.secagg import Terms
from f2ed.protocol.sharding import Assignment, ClientId
from f2ed.simulation.assignments import Assignments
from f2ed.simulation.client_weights import ClientWeights
from f2ed.simulation.config import Experiment
from f2ed.simulation.transport import MemoryExchange, SimulatedClients
from f2ed.simulation.validate import encoding

__all__ = ["OpenedRows", "Sharded", "Unsharded"]


class OpenedRows(NamedTuple):
    """What the server holds before it estimates."""

    matrix: Any
    """[p', d]; a torch tensor where every update is seen, a NumPy array of shard means otherwise."""
    shards: tuple[int, ...]
    """The shard that each row is the mean of."""
    excluded: dict[int, str]
    """The shards without a row, and why."""
    dropped: Mapping[ClientId, str]
    """The clients that did not take part, and why: they dropped out, or their update was not finite."""
    audit: Audit | None = None
    weights: tuple[int, ...] | None = None
    """How much each row counts; None where all count the same."""
    protect: float = 0.0
    """Seconds that the server spent waiting for clients to encode and mask."""
    kept: tuple[ClientId, ...] | None = None
    """With helpers: whose updates are in the one sum; None where none was opened."""
    estimate: Estimate | None = None
    """With helpers, where the judge has weighed the rows and nobody else can."""
    skipped: str | None = None
    """With helpers: why no sum was opened."""
    bytes_up: int = 0
    """With helpers: what a client sent."""
    memory: ServerGuard | None = None
    """With helpers: survivors and strikes after the round."""
    shortened: int = 0
    """With helpers: the clients whose updates were scaled down to `clip_norm`."""


class Unsharded:
    """No shards: the estimator sees each update as it is, and nobody is hidden."""

    def __init__(self, assignments: Assignments, weights: ClientWeights | None) -> None:
        self._assignments, self._weights = assignments, weights

    def __call__(self, updates: Tensor, model: Tensor, round_: int, dropped: Mapping[ClientId, str]) -> OpenedRows:  # noqa: ARG002  as with shards
        """Leave out the clients that dropped out."""
        everyone = self._assignments.clients(round_)
        alone = {members[0]: number for number, members in enumerate(self._assignments(round_).shards)}
        present = [row for row, client in enumerate(everyone) if client not in dropped]
        weights = self._weights and tuple(self._weights.by_client[everyone[row]] for row in present)
        return OpenedRows(
            updates[present] if dropped else updates,
            tuple(alone[everyone[row]] for row in present),
            {alone[client]: why for client, why in dropped.items()},
            dropped,
            weights=weights,
        )


class Sharded:
    """Shards: every client encodes and masks its update, and the server opens the mean of each shard.

    Keys last an epoch, and no longer than this process: a resumed run needs no secrets on disk.
    """

    def __init__(
        self,
        experiment: Experiment,
        job: str,
        assignments: Assignments,
        weights: ClientWeights | None,
        workers: int,
        plan: UpdatePlan,
    ) -> None:
        self._experiment = experiment
        self._weights = weights
        self._plan = plan
        self._job = job
        self._assignments = assignments
        self._encoding = encoding(experiment)
        self._clients = SimulatedClients(job, shard_of=assignments.shard_of, workers=workers)
        self._setup = KeySetup({}, {}, {})
        self._last: tuple[int, int] | None = None

    def __call__(self, updates: Tensor, model: Tensor, round_: int, dropped: Mapping[ClientId, str]) -> OpenedRows:
        """Run the protocol in all shards."""
        assignment = self._assignments(round_)
        digest = hashlib.sha256(model.cpu().numpy().tobytes()).digest()
        rows = {client: row for row, client in enumerate(self._assignments.clients(round_))}
        self._clients.enroll(rows)
        sent = updates.cpu().numpy()
        sent = self._plan.narrowed(sent) if self._plan.scales else sent
        exchange = MemoryExchange(self._clients, sent, rows, model=digest, seed=self._experiment.seed, round_=round_)
        task = self._task(round_, digest, updates.shape[1])
        self._begin_epoch(exchange, assignment, task)
        exchange.silent.update(dropped)
        # A copy: after a failure a deployment asks for keys again, but nobody here has lost any.
        keys = dict(self._setup.keys)
        means, audit = shard_means(exchange, assignment, task, keys=keys, threads=self._clients.workers)
        if self._plan.scales:
            self._plan.widen(means)
        # Whether the set-up is recorded depends on the round alone: one repeated after an interruption is not.
        if round_ == 0 or self._assignments.epoch(round_ - 1) != assignment.epoch:
            audit = self._setup.charged_to(audit)
        excluded = _closed(audit, shard_terms(assignment, msgspec.structs.replace(task, secure=True)), exchange.silent)
        kept = [row for row, shard in enumerate(audit.opened) if shard not in excluded]
        opened = tuple(audit.opened[row] for row in kept)
        return OpenedRows(
            means if len(kept) == len(means) else means[kept],
            opened,
            excluded,
            dict(sorted(exchange.silent.items())),
            audit,
            row_weights(task, [audit.shards[shard].survivors for shard in opened]),
            exchange.waited,
        )

    def _task(self, round_: int, model: bytes, coordinates: int) -> Task:
        it = self._experiment
        return Task(
            job=self._job,
            round=round_,
            model=model,
            coordinates=coordinates,
            encoding=self._encoding,
            roster=self._clients.roster,
            protocol=it.protocol,
            weights=None if self._weights is None else self._weights.by_client,
            weight_cap=1 if self._weights is None else self._weights.cap,
            noise=0.0 if it.dp is None else it.dp.noise_multiplier,
            secure=it.secure,
        )

    def _begin_epoch(self, exchange: MemoryExchange, assignment: Assignment, task: Task) -> None:
        """Set the epoch up where it is new, or where this round does not follow the last one."""
        if self._last is None or self._last[0] != assignment.epoch or task.round <= self._last[1]:
            self._last = None
            with self._clients.new_epoch(key_holders(assignment, task)):
                self._setup = set_up_keys(exchange, assignment, task)
        self._last = (assignment.epoch, task.round)


def _closed(audit: Audit, masked: tuple[Terms, ...], silent: Mapping[ClientId, str]) -> dict[int, str]:
    """Return the shards without a mean, and why; summed in the clear, those that masks would have kept closed."""
    reasons = {each.shard: _reason(each, terms, silent) for each, terms in zip(audit.shards, masked, strict=True)}
    return {shard: reason for shard, reason in reasons.items() if reason is not None}


def _reason(shard: ShardAudit, masked: Terms, silent: Mapping[ClientId, str]) -> str | None:
    if shard.reason is None and len(shard.survivors) >= masked.min_crowd:
        return None
    missing = [client for client in shard.members if client in silent]
    if not missing:
        return shard.reason
    return f"{len(missing)} of {len(shard.members)} members sent nothing: {silent[missing[0]]}"
