"""One round over Flower: from the model to the next one, by way of shard means that the server may see."""

import time
from collections.abc import Callable, Iterable
from logging import getLogger
from typing import NamedTuple, TypeAlias

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord

from f2ed.core.errors import ConfigError
from f2ed.core.spill import Zeros, forget
from f2ed.deployment.journal import RoundOutcome
from f2ed.deployment.masked_metrics import Measured, read_metrics, width
from f2ed.deployment.pace import Pace
from f2ed.deployment.quarantine import Quarantine
from f2ed.deployment.settings import ServerSettings
from f2ed.deployment.training_rules import EVALUATE, TRAIN
from f2ed.deployment.transparency import ServerLog
from f2ed.estimators import Estimator
from f2ed.flower.arrays import moved, update
from f2ed.flower.attendance import Attendance
from f2ed.flower.checkpoint import Progress
from f2ed.flower.handover import train_input
from f2ed.flower.inner import WEIGHTED_BY, as_model, mean_reply
from f2ed.flower.node_registry import NodeRegistry
from f2ed.flower.transport import Connection, Deadlines, RoundExchange
from f2ed.protocol.aggregation import Audit, EpochKeys, ServerStep, UpdatePlan, row_weights, shard_means
from f2ed.protocol.sharding import ClientId
from f2ed.records import Seconds

__all__ = ["AggregateTrain", "RootFn", "RoundLeader", "checked_root"]

_log = getLogger("f2ed.flower")

AggregateTrain: TypeAlias = Callable[[int, Iterable[Message]], tuple[ArrayRecord | None, MetricRecord | None]]
"""`aggregate_train` of a strategy."""


RootFn: TypeAlias = Callable[[int, ArrayRecord], ArrayRecord]
"""Given the number of the round, from 1, and the model, returns the model trained on data that the server trusts."""


def checked_root(estimator: Estimator, root_fn: RootFn | None) -> RootFn | None:
    """Return what trains on the server's own data, where the estimator uses it; refuse to go without."""
    if not estimator.needs_root():
        return None
    if root_fn is None:
        raise ConfigError(
            f"{estimator.title} needs a trusted update; pass root_fn, which trains the model on the server's own data"
        )
    return root_fn


class RoundLeader(NamedTuple):
    """Leads one round after another of a Flower run."""

    connection: Connection
    registry: NodeRegistry
    pace: Pace
    quarantine: Quarantine
    job: str
    settings: ServerSettings
    step: ServerStep
    plan: UpdatePlan
    keys: EpochKeys
    log: ServerLog | None = None
    root_fn: RootFn | None = None
    weighted_by: str = WEIGHTED_BY
    """The metric by which the strategy weights replies, of which there is one."""
    zeros: Zeros = np.zeros
    """Makes sums and means."""

    def lead(
        self,
        progress: Progress,
        attendance: Attendance,
        config: ConfigRecord,
        deadlines: Deadlines,
        aggregate: AggregateTrain,
    ) -> tuple[ArrayRecord, RoundOutcome]:
        """Lead the round after those that are finished; return the model after it, and what happened.

        The protocol numbers rounds over all runs of the federation, so its number may be larger than the run's.
        `aggregate` is shown the robust mean, and has the last word on the model.
        """
        round_, number = progress.round, attendance.number
        began = time.monotonic()
        late = self._late_replies()
        exchange = self._exchange(progress, attendance, config, deadlines)
        assignment = self.settings.roster.assignment(number)
        task = self.settings.task(self.job, number, model=exchange.model, coordinates=self.plan.coordinates)
        # Each shard has its own deadlines, and none waits for another; meanwhile nodes that come back say hello.
        means, audit = shard_means(
            exchange,
            assignment,
            task,
            keys=self.keys,
            independent=True,
            meanwhile=self.registry.poll,
            zeros=self.zeros,
        )
        for mean in means if self.plan.scales else ():
            self.plan.widen(mean)
            forget(mean)
        opened = time.monotonic()
        weights = row_weights(task, [audit.shards[shard].survivors for shard in audit.opened])
        names = [assignment.name(shard) for shard in audit.opened]
        trained = None if self.root_fn is None else self.root_fn(round_ + 1, progress.arrays)
        root = None if trained is None else update(progress.arrays, trained, self.plan)
        result = self.step(means, progress.step, round_=round_, weights=weights, names=names, root=root)
        seconds = Seconds(exchange=opened - began, estimate=time.monotonic() - opened)
        arrays, metrics = progress.arrays, None
        if result.step is not None:
            arrays, metrics = self._moved(progress, moved(arrays, result.step, self.plan), audit, aggregate)
        if self.log is not None:
            before, after = (train_input(each, ConfigRecord()).model() for each in (progress.arrays, arrays))
            self.log.write(task, assignment, audit, means=means, errors=exchange.errors, before=before, after=after)
        self._count_faults(audit, attendance, exchange, round_ + 1)
        return arrays, RoundOutcome(
            audit,
            result,
            exchange.errors,
            seconds,
            model_bytes=exchange.bytes_of_models,
            late=late,
            quarantined=self.quarantine.left_out(),
            unled=_unled(progress, number),
            metrics=metrics,
        )

    def measure(
        self, progress: Progress, attendance: Attendance, config: ConfigRecord, deadlines: Deadlines
    ) -> tuple[Measured, Audit]:
        """Have the clients evaluate the model under masks; return the means of the shards that opened.

        It is a round of the protocol with a number of its own, and vectors of metrics in place of updates.
        """
        number, rules = attendance.number, self.settings.roster.training.masked_metrics
        exchange = self._exchange(progress, attendance, config, deadlines, EVALUATE)
        assignment = self.settings.roster.assignment(number)
        task = self.settings.task(self.job, number, model=exchange.model, coordinates=width(rules))
        means, audit = shard_means(
            exchange, assignment, task, keys=self.keys, independent=True, meanwhile=self.registry.poll
        )
        if self.log is not None:
            same = train_input(progress.arrays, ConfigRecord()).model()
            self.log.write(task, assignment, audit, means=means, errors=exchange.errors, before=same, after=same)
        self._count_faults(audit, attendance, exchange, progress.round)
        survivors = {shard: len(audit.shards[shard].survivors) for shard in audit.opened}
        return read_metrics(rules, means, task.encoding, survivors), audit

    def _moved(
        self, progress: Progress, mean: ArrayRecord, audit: Audit, aggregate: AggregateTrain
    ) -> tuple[ArrayRecord, MetricRecord | None]:
        """Return the model that the strategy makes of the robust mean, and its metrics."""
        counts = {
            "shards-opened": len(audit.opened),
            "clients-dropped": sum(len(each.dropped) for each in audit.shards),
            "crowd": audit.crowd,
            self.weighted_by: 1,
        }
        round_ = progress.round + 1
        returned, metrics = aggregate(round_, [mean_reply(mean, counts, round_=round_)])
        names = list(progress.arrays)
        trained = {names[place] for place in self.plan.trained_places}
        return as_model(returned, mean, progress.arrays, trained=trained), metrics

    def check_alone(self, progress: Progress) -> None:
        """Refuse to go on if clients have answered later rounds than this run has led: those of another run."""
        last, malicious = progress.following - 1, self.settings.malicious
        claims = sorted((self.registry.last_of(client) for client in self.registry.claims_beyond(last)), reverse=True)
        if len(claims) > (liars := max(1, malicious)):
            raise ConfigError(
                f"another run of {self.settings.roster.name!r} is under way: {len(claims)} clients have answered its "
                f"round {claims[liars]}, and this run has led rounds up to {last}. Stop one of the two; this one ends "
                f"here, after {progress.round} rounds"
            )

    def _exchange(
        self,
        progress: Progress,
        attendance: Attendance,
        config: ConfigRecord,
        deadlines: Deadlines,
        kind: str = TRAIN,
    ) -> RoundExchange:
        self.pace.begin_round()
        return RoundExchange(
            self.connection,
            attendance.nodes,
            absent=attendance.absent,
            number=progress.round + 1,  # The protocol counts from 0, Flower's users from 1.
            model=train_input(progress.arrays, config, kind).digest(self.registry.run_config()),
            arrays=progress.arrays,
            config=config,
            deadlines=deadlines,
            pace=self.pace,
            kind=kind,
        )

    def _late_replies(self) -> dict[ClientId, str]:
        """Return who answered an earlier round after its deadline; their nodes are free again."""
        found = {}
        for node, round_, seconds in self.connection.late_replies():
            self.registry.resume(node)
            client = self.registry.client_of(node)
            if client is not None:
                found[client] = f"its reply in round {round_} took {seconds:.0f} s, too late to be used"
                _log.warning("f2ed: client %s (%s): %s", client, self.settings.names[client], found[client])
        return found

    def _count_faults(self, audit: Audit, attendance: Attendance, exchange: RoundExchange, round_: int) -> None:
        """Take down who failed: these say hello again before they are asked, and are left out if it goes on."""
        dropped = {client: why for each in audit.shards for client, why in each.dropped.items()}
        faults = {c: exchange.errors.get(c, why) for c, why in dropped.items() if c in attendance.nodes}
        good = [client for client in attendance.nodes if client not in faults]
        reasons = {client: f"round {round_}: {why}" for client, why in faults.items()}
        self.registry.suspend(reasons, attendance.nodes, exchange.late)
        for client in self.quarantine.after_round(reasons, good):
            self.pace.forget(client)


def _unled(progress: Progress, number: int) -> tuple[int, int] | None:
    """Return the first and last number of the protocol that this federation used without this run, if any."""
    return (progress.following, number - 1) if number > progress.following else None
