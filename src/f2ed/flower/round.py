"""One round over Flower: from the model to the next one, by way of sums that the server may see."""

import time
from collections.abc import Callable, Iterable, Sequence
from logging import getLogger
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord

from f2ed.core.errors import ConfigError
from f2ed.deployment.journal import RoundOutcome, SeenRows
from f2ed.deployment.masked_metrics import Measured
from f2ed.deployment.pace import Pace
from f2ed.deployment.quarantine import Quarantine
from f2ed.deployment.settings import ServerSettings
from f2ed.deployment.training_rules import EVALUATE, TRAIN
from f2ed.deployment.transparency import ServerLog
from f2ed.estimators import Estimator
from f2ed.flower.arrays import moved
from f2ed.flower.attendance import Attendance
from f2ed.flower.checkpoint import Progress
from f2ed.flower.handover import train_input
from f2ed.flower.inner import WEIGHTED_BY, as_model, mean_reply
from f2ed.flower.node_registry import NodeRegistry
from f2ed.flower.transport import Connection, Deadlines, Post, RoundExchange
from f2ed.protocol.aggregation import Audit, StepResult, UpdatePlan
from f2ed.protocol.helpers import ServerGuard
from f2ed.protocol.sharding import ClientId
from f2ed.records import Seconds

__all__ = [
    "AggregateTrain",
    "OpenedRound",
    "OpenedSums",
    "RootFn",
    "RoundKind",
    "RoundLeader",
    "RoundStart",
    "checked_root",
]

_log = getLogger("f2ed.flower")

AggregateTrain: TypeAlias = Callable[[int, Iterable[Message]], tuple[ArrayRecord | None, MetricRecord | None]]
"""`aggregate_train` of a strategy."""


RootFn: TypeAlias = Callable[[int, ArrayRecord], ArrayRecord]
"""Given the number of the round, from 1, and the model, returns the model trained on data that the server trusts."""


def checked_root(estimator: Estimator, root_fn: RootFn | None) -> RootFn | None:
    """Return what trains on the server's own data; refuse to go without where the estimator uses it."""
    if not estimator.needs_root():
        if root_fn is not None:
            _log.warning("f2ed: root_fn is not used, since %s needs no trusted update", estimator.title)
        return None
    if root_fn is None:
        raise ConfigError(
            f"{estimator.title} needs a trusted update; pass root_fn, which trains the model on the server's own data"
        )
    return root_fn


class RoundStart(NamedTuple):
    """What a round begins with."""

    number: int
    """In the protocol."""
    model: bytes
    """The digest of all that the clients are given."""
    meanwhile: Callable[[], None]
    """To be called now and then while replies are awaited."""
    patience: float
    """Seconds for which a helper may be down in a step."""


class OpenedSums(NamedTuple):
    """The sums of a round that were opened, as means, and the record of how that came about."""

    audit: Audit
    means: npt.NDArray[np.float32]
    """[p', d], in the order of `audit.opened`."""
    contexts: Callable[[], Sequence[bytes]]
    """What the masks of each shard were bound to."""


class OpenedRound(NamedTuple):
    """A round of either kind, before the model moves."""

    sums: OpenedSums
    rows: SeenRows
    result: StepResult
    opened: float
    """When all sums were there, by the monotonic clock."""
    guard: ServerGuard = ServerGuard()
    """With helpers: what the server remembers of the epoch."""
    innocent: frozenset[ClientId] = frozenset()
    """Clients that were not asked, through no fault in this round."""


class RoundKind(Protocol):
    """How updates are hidden in a round: in shards, or with helpers."""

    @property
    def plan(self) -> UpdatePlan:
        """What an update is made of."""

    def post(self, model: bytes, arrays: ArrayRecord, config: ConfigRecord, kind: str = TRAIN) -> Post:
        """Return how requests become messages."""

    def open(self, start: RoundStart, progress: Progress, exchange: RoundExchange) -> OpenedRound:
        """Lead the exchanges of a round, and make a step of what they open."""


Measure: TypeAlias = Callable[[RoundStart, RoundExchange], tuple[Measured, OpenedSums]]


class RoundLeader(NamedTuple):
    """Leads one round after another of a Flower run."""

    connection: Connection
    registry: NodeRegistry
    pace: Pace
    quarantine: Quarantine
    settings: ServerSettings
    kind: RoundKind
    log: ServerLog | None = None
    weighted_by: str = WEIGHTED_BY
    """The metric by which the strategy weights replies, of which there is one."""

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
        start, exchange = self._begun(progress, attendance, config, deadlines)
        found = self.kind.open(start, progress, exchange)
        audit, result = found.sums.audit, found.result
        seconds = Seconds(exchange=found.opened - began, estimate=time.monotonic() - found.opened)
        arrays, metrics = progress.arrays, None
        if result.step is not None:
            arrays, metrics = self._moved(progress, moved(arrays, result.step, self.kind.plan), audit, aggregate)
        self._write(found.sums, start, exchange, progress.arrays, arrays)
        self._count_faults(audit, attendance, exchange, round_ + 1, found.innocent)
        return arrays, RoundOutcome(
            audit,
            found.rows,
            result,
            {party: why for party, why in exchange.errors.items() if isinstance(party, int)},
            seconds,
            model_bytes=exchange.bytes_of_models,
            late=late,
            quarantined=self.quarantine.left_out(),
            unled=_unled(progress, number),
            metrics=metrics,
            guard=found.guard,
            relayed={role: exchange.sent[role] + exchange.received[role] for role in attendance.helpers},
        )

    def measure(
        self,
        progress: Progress,
        attendance: Attendance,
        config: ConfigRecord,
        deadlines: Deadlines,
        measure: Measure,
    ) -> tuple[Measured, Audit]:
        """Have the clients evaluate the model under masks; return the means of the shards that opened.

        It is a round of the protocol with a number of its own, and vectors of metrics in place of updates.
        """
        start, exchange = self._begun(progress, attendance, config, deadlines, EVALUATE)
        measured, sums = measure(start, exchange)
        self._write(sums, start, exchange, progress.arrays, progress.arrays)
        self._count_faults(sums.audit, attendance, exchange, progress.round)
        return measured, sums.audit

    def _write(
        self, sums: OpenedSums, start: RoundStart, exchange: RoundExchange, before: ArrayRecord, after: ArrayRecord
    ) -> None:
        """Put a round into the server's log."""
        if self.log is None:
            return
        first, last = (train_input(each, ConfigRecord()).model() for each in (before, after))
        self.log.write(
            sums.audit,
            sums.contexts(),
            given=start.model,
            means=sums.means,
            errors=exchange.errors,
            before=first,
            after=last,
        )

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
        trained = {names[place] for place in self.kind.plan.trained_places}
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

    def _begun(
        self,
        progress: Progress,
        attendance: Attendance,
        config: ConfigRecord,
        deadlines: Deadlines,
        kind: str = TRAIN,
    ) -> tuple[RoundStart, RoundExchange]:
        self.pace.begin_round()
        arrays = progress.arrays
        model = train_input(arrays, config, kind).digest(self.registry.run_config())
        exchange = RoundExchange(
            self.connection,
            {**attendance.nodes, **attendance.helpers},
            absent=attendance.absent,
            number=progress.round + 1,  # The protocol counts from 0, Flower's users from 1.
            post=self.kind.post(model, arrays, config, kind),
            model_bytes=sum(len(array.data) for array in arrays.values()),
            deadlines=deadlines,
            pace=self.pace,
            kind=kind,
        )
        return RoundStart(attendance.number, model, self.registry.poll, deadlines.step), exchange

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

    def _count_faults(
        self,
        audit: Audit,
        attendance: Attendance,
        exchange: RoundExchange,
        round_: int,
        innocent: frozenset[ClientId] = frozenset(),
    ) -> None:
        """Take down who failed: these say hello again before they are asked, and are left out if it goes on."""
        dropped = {client: why for each in audit.shards for client, why in each.dropped.items()}
        faults = {
            client: exchange.errors.get(client, why)
            for client, why in dropped.items()
            if client in attendance.nodes and client not in innocent
        }
        good = [client for client in attendance.nodes if client not in faults]
        reasons = {client: f"round {round_}: {why}" for client, why in faults.items()}
        self.registry.suspend(reasons, attendance.nodes, exchange.late)
        for role in attendance.helpers:
            if role in exchange.errors:
                self.registry.helpers.forget(role, f"round {round_}: {exchange.errors[role]}")
        for client in self.quarantine.after_round(reasons, good):
            self.pace.forget(client)


def _unled(progress: Progress, number: int) -> tuple[int, int] | None:
    """Return the first and last number of the protocol that this federation used without this run, if any."""
    return (progress.following, number - 1) if number > progress.following else None
