"""From the clients' updates to the rows that the estimator sees: means of shards, or the updates themselves."""

import hashlib
from collections.abc import Mapping
from time import perf_counter
from typing import Any, Literal, NamedTuple

import msgspec
from torch import Tensor

from f2ed.core.randomness import stream
from f2ed.protocol.aggregation import Audit, ShardAudit, Task, shard_means, shard_terms
from f2ed.protocol.secagg import Mode, Terms
from f2ed.protocol.secagg.schemes import Clear
from f2ed.protocol.sharding import Assignment, ClientId
from f2ed.simulation.config import Experiment
from f2ed.simulation.key_setup import SetUp, set_up, with_cost
from f2ed.simulation.transport import Clients, Round
from f2ed.simulation.validate import encoding

__all__ = ["Bare", "Rows", "Sharded"]


class Rows(NamedTuple):
    """What the server holds before it estimates; `protect` and `sum` are seconds."""

    matrix: Any
    """[p', d]; a torch tensor where every update is seen, a NumPy array where shards are."""
    numbers: tuple[int, ...]
    """Which shard each row is the mean of."""
    excluded: dict[int, str]
    audit: Audit | None
    protect: float = 0.0
    sum: float = 0.0


class Bare:
    """No shards: the estimator sees each update as it is, and nobody is hidden."""

    mode: Literal["none"] = "none"

    def __init__(self, experiment: Experiment) -> None:
        shards = tuple((client,) for client in range(experiment.clients))
        self._plan = Assignment(shards=shards, epoch=0, seed=b"", roster=b"")

    def plan(self, round_: int) -> Assignment:  # noqa: ARG002  there is nothing to deal
        """Return a shard for every client."""
        return self._plan

    def __call__(self, updates: Tensor, model: Tensor, round_: int, absent: Mapping[ClientId, str]) -> Rows:  # noqa: ARG002
        """Leave out who is absent."""
        if not absent:
            return Rows(updates, tuple(range(len(updates))), {}, None)
        there = [client for client in range(len(updates)) if client not in absent]
        return Rows(updates[there], tuple(there), dict(absent), None)


class Sharded:
    """Shards: every update is encoded and masked by its client, and the server opens the means.

    Keys last an epoch, and no longer than this process: a run that is taken up again needs no secrets on a disk.
    """

    def __init__(self, experiment: Experiment, job: str, workers: int) -> None:
        self._experiment = experiment
        self._job = job
        self._encoding = encoding(experiment)
        self._plans: dict[int, Assignment] = {}
        self._agreed = SetUp({}, {}, {})
        self._last: tuple[int, int] | None = None
        self._clients = Clients(experiment.clients, job, shard=self._shard, workers=workers)

    @property
    def mode(self) -> Mode:
        """The protocol's mode for the smallest shard."""
        if not self._experiment.secure:
            return Clear.mode
        return self._experiment.shard_mode

    def plan(self, round_: int) -> Assignment:
        """Deal for the round's epoch; it depends on the run's seed, not on the clients' keys, which are always new."""
        epoch = self._experiment.schedule(round_)
        if epoch not in self._plans:
            seed = stream(self._experiment.seed, "deal").bytes(32)
            roster = dict.fromkeys(range(self._experiment.clients), b"")
            dealing = self._experiment.schedule.assign
            self._plans = {epoch: dealing(roster, shards=self._experiment.rows, epoch=epoch, seed=seed)}
        return self._plans[epoch]

    def __call__(self, updates: Tensor, model: Tensor, round_: int, absent: Mapping[ClientId, str]) -> Rows:
        """Run the protocol in all shards."""
        since = perf_counter()
        plan = self.plan(round_)
        exchange = Round(
            self._clients,
            updates.cpu().numpy(),
            model=hashlib.sha256(model.cpu().numpy().tobytes()).digest(),
            rounding=lambda client: stream(self._experiment.seed, "rounding", round_, client).bytes(32),
        )
        task = Task(
            job=self._job,
            round=round_,
            model=exchange.model,
            coordinates=updates.shape[1],
            encoding=self._encoding,
            roster=self._clients.roster,
            protocol=self._experiment.protocol,
            noise=0.0 if self._experiment.dp is None else self._experiment.dp.noise_multiplier,
            secure=self._experiment.secure,
        )
        self._begin(exchange, plan, task)
        exchange.silent.update(absent)
        # A copy: after a failure a deployment asks for keys again, but nobody here has lost any.
        keys = dict(self._agreed.keys)
        means, audit = shard_means(exchange, plan, task, keys=keys, threads=self._clients.workers)
        # Whether a set-up is on record depends on the round alone: one that an interruption asked for is not.
        if round_ == 0 or self._experiment.schedule(round_ - 1) != plan.epoch:
            audit = with_cost(audit, self._agreed)
        secret = shard_terms(plan, msgspec.structs.replace(task, secure=True))
        excluded = {
            each.shard: why
            for each, terms in zip(audit.shards, secret, strict=True)
            if (why := _closed(each, terms, exchange.silent)) is not None
        }
        kept = [row for row, shard in enumerate(audit.opened) if shard not in excluded]
        if len(kept) < len(means):
            means = means[kept]
        numbers = tuple(audit.opened[row] for row in kept)
        return Rows(means, numbers, excluded, audit, exchange.waited, perf_counter() - since - exchange.waited)

    def _shard(self, client: ClientId, round_: int) -> tuple[ClientId, ...]:
        plan = self.plan(round_)
        return plan.shards[plan.shard_of(client)]

    def _begin(self, exchange: Round, plan: Assignment, task: Task) -> None:
        """Set the epoch up where it is new, or where this round is not after the last one."""
        if self._last is None or self._last[0] != plan.epoch or task.round <= self._last[1]:
            self._last = None
            self._agreed = set_up(self._clients, exchange, plan, task)
        self._last = (plan.epoch, task.round)


def _closed(shard: ShardAudit, terms: Terms, silent: Mapping[ClientId, str]) -> str | None:
    """Say why a shard has no mean: in the clear it has none where the masked one would have had none."""
    missing = [client for client in shard.members if client in silent]
    if shard.reason is None and len(shard.survivors) >= terms.min_crowd:
        return None
    if not missing:
        return shard.reason
    return f"{len(missing)} of {len(shard.members)} members sent nothing: {silent[missing[0]]}"
