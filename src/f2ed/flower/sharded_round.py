"""A round in shards: means that the server may see, and its estimator over them."""

import time
from functools import partial
from typing import NamedTuple

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord

from f2ed.core.spill import Zeros, forget
from f2ed.deployment.journal import SeenRows
from f2ed.deployment.masked_metrics import Measured, read_metrics, width
from f2ed.deployment.settings import ServerSettings
from f2ed.deployment.training_rules import TRAIN
from f2ed.flower.arrays import update
from f2ed.flower.checkpoint import Progress
from f2ed.flower.round import OpenedRound, OpenedSums, RootFn, RoundStart
from f2ed.flower.transport import Post, Posted, RoundExchange
from f2ed.flower.wire import request_content
from f2ed.protocol.aggregation import EpochKeys, ServerStep, Task, UpdatePlan, row_weights, shard_means, shard_terms
from f2ed.protocol.secagg import read_request
from f2ed.protocol.secagg.terms import bind
from f2ed.protocol.sharding import Assignment, ClientId

__all__ = ["ShardedRounds"]


class ShardedRounds(NamedTuple):
    """Opens rounds by secure aggregation in shards."""

    settings: ServerSettings
    step: ServerStep
    plan: UpdatePlan
    job: str
    keys: EpochKeys
    """Of past rounds of an epoch."""
    root_fn: RootFn | None = None
    zeros: Zeros = np.zeros
    """Makes sums and means."""

    def post(self, model: bytes, arrays: ArrayRecord, config: ConfigRecord, kind: str = TRAIN) -> Post:
        """Return how requests become messages."""

        def posted(_: ClientId, request: bytes) -> Posted:
            asked, settings = read_request(request), ConfigRecord({"request": request, "model": model})
            step = f"{kind} {type(asked).__name__}"
            if not asked.asks_update:
                return Posted(request_content(settings), step)
            return Posted(request_content(settings, arrays=arrays, config=config), step, trains=True)

        return posted

    def open(self, start: RoundStart, progress: Progress, exchange: RoundExchange) -> OpenedRound:
        """Open the means of all shards that can be opened, and estimate their mean."""
        assignment, task = self._task(start, self.plan.coordinates)
        # Each shard has its own deadlines, and none waits for another; meanwhile nodes that come back say hello.
        means, audit = shard_means(
            exchange,
            assignment,
            task,
            keys=self.keys,
            independent=True,
            meanwhile=start.meanwhile,
            zeros=self.zeros,
        )
        for mean in means if self.plan.scales else ():
            self.plan.widen(mean)
            forget(mean)
        opened = time.monotonic()
        weights = row_weights(task, [audit.shards[shard].survivors for shard in audit.opened])
        names = [assignment.name(shard) for shard in audit.opened]
        trained = None if self.root_fn is None else self.root_fn(progress.round + 1, progress.arrays)
        root = None if trained is None else update(progress.arrays, trained, self.plan)
        result = self.step(means, progress.step, round_=progress.round, weights=weights, names=names, root=root)
        sums = OpenedSums(audit, means, partial(_contexts, assignment, task))
        return OpenedRound(sums, SeenRows.of(audit), result, opened)

    def measure(self, start: RoundStart, exchange: RoundExchange) -> tuple[Measured, OpenedSums]:
        """Open the metrics of the clients, in a round that trains nothing."""
        rules = self.settings.roster.training.masked_metrics
        assignment, task = self._task(start, width(rules))
        means, audit = shard_means(
            exchange, assignment, task, keys=self.keys, independent=True, meanwhile=start.meanwhile
        )
        survivors = {shard: len(audit.shards[shard].survivors) for shard in audit.opened}
        sums = OpenedSums(audit, means, partial(_contexts, assignment, task))
        return read_metrics(rules, means, task.encoding, survivors), sums

    def _task(self, start: RoundStart, coordinates: int) -> tuple[Assignment, Task]:
        assignment = self.settings.roster.assignment(start.number)
        return assignment, self.settings.task(self.job, start.number, model=start.model, coordinates=coordinates)


def _contexts(assignment: Assignment, task: Task) -> tuple[bytes, ...]:
    return tuple(bind(terms, task.roster, task.model) for terms in shard_terms(assignment, task))
