"""The rounds of one Flower run: from the checkpoint to the last round, with everything that is written on the way."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from logging import getLogger
from pathlib import Path

import msgspec
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result

from f2ed.core.errors import ConfigError, OutageError
from f2ed.core.spill import Spill
from f2ed.deployment.journal import Journal, RoundOutcome, run_header
from f2ed.deployment.logged import with_logged
from f2ed.deployment.masked_metrics import Measured
from f2ed.deployment.pace import Pace
from f2ed.deployment.quarantine import Quarantine
from f2ed.deployment.run_lock import Note
from f2ed.deployment.server_guard import GuardFile
from f2ed.deployment.settings import ServerSettings
from f2ed.deployment.training_rules import SERVER_ROUND
from f2ed.deployment.transparency import Heads, ServerLog, log_lines
from f2ed.flower import checkpoint as checkpoints
from f2ed.flower.arrays import NO_MODEL, stated_plan
from f2ed.flower.attendance import Attendance, Muster, Waits
from f2ed.flower.checkpoint import Progress
from f2ed.flower.evaluation import Evaluation, evaluated, recorded
from f2ed.flower.helped_round import HelpedRounds, check_plan
from f2ed.flower.hooks import FinishedRound, OnRound
from f2ed.flower.inner import WEIGHTED_BY, Inner
from f2ed.flower.node_registry import NodeRegistry
from f2ed.flower.round import AggregateTrain, RootFn, RoundKind, RoundLeader
from f2ed.flower.round_input import RoundInputs
from f2ed.flower.setbacks import Setbacks
from f2ed.flower.sharded_round import ShardedRounds
from f2ed.flower.transport import Connection, Deadlines
from f2ed.protocol.aggregation import Audit, ServerStep, UpdatePlan
from f2ed.records import Deployed, RoundRecord

__all__ = ["RunLeader", "RunSettings"]

_log = getLogger("f2ed.flower")


@dataclass
class RunSettings:
    """What a strategy sets for its run; the deadlines may change between two rounds."""

    server: ServerSettings
    deadlines: Deadlines
    waits: Waits
    max_skipped: int
    checkpoint: Path | None
    records: Path | None
    heads: Heads | None
    log: ServerLog | None
    seed: int | None
    root_fn: RootFn | None
    on_round: Sequence[OnRound]
    inner: Inner | None
    spill: Spill | None = None
    """Where sums, means and masked rows go beyond the memory budget; None if there is none."""


class RunLeader:
    """Leads the rounds of one run; `written` gets the record of each round and of each attempt that was skipped."""

    def __init__(self, settings: RunSettings, aggregate: AggregateTrain, written: list[RoundRecord]) -> None:
        self._settings = settings
        self._aggregate = aggregate
        self._written = written
        self._roster = settings.server.roster

    def lead(
        self,
        grid: Grid,
        initial: ArrayRecord,
        num_rounds: int,
        inputs: RoundInputs,
        evaluation: Evaluation,
        note: Note,
    ) -> Result:
        """Lead all rounds that are left, and return what Flower's strategies return."""
        if self._written:
            raise ConfigError("this F2ed has led a run; lead all rounds by one call of start, or make another F2ed")
        progress = self._remembering(self._resumed(initial))
        result = Result(arrays=progress.arrays)
        metrics = recorded(evaluated(evaluation.server, progress, result))
        leader = self._leader(grid, progress)
        journal = self._journal(progress, metrics, rounds=num_rounds, coordinates=leader.kind.plan.coordinates)
        muster = Muster(leader.registry, leader.quarantine, self._settings.server, self._settings.waits)
        setbacks = Setbacks(self._settings.max_skipped)
        while progress.round < num_rounds:
            config = inputs(progress.round + 1, progress.arrays)
            note(progress.round + 1, skipped=len(progress.attempts))
            attendance = muster(progress.following, finished=progress.round, note=note)
            if self._written:
                leader.check_alone(progress)
            arrays, outcome = leader.lead(progress, attendance, config, self._settings.deadlines, self._aggregate)
            progress = self._after(progress, arrays, outcome, journal)
            if outcome.result.skipped is None:
                if evaluation.masked is not None:
                    attendance = muster(progress.following, finished=progress.round, note=note)
                    progress = self._measured(progress, leader, attendance, evaluation.masked, journal, result)
                self._publish(progress, outcome, journal, evaluation, result)
            else:
                note(progress.round + 1, skipped=len(progress.attempts))
            setbacks.after(outcome.result, finished=progress.round)
        return result

    def _after(self, before: Progress, arrays: ArrayRecord, outcome: RoundOutcome, journal: Journal) -> Progress:
        """Return how far the run is after a round; one that was skipped does not count, and is led again."""
        record = journal.describe(outcome, round_=before.round, attempts=before.attempts)
        self._written.append(record)
        journal.log(record)
        progress = before._replace(
            step=outcome.result.state,
            history=journal.history,
            following=outcome.audit.round + 1,
            guard=outcome.guard,
        )
        if record.skipped is None:
            progress = progress._replace(round=before.round + 1, arrays=arrays, record=record, attempts=())
            if self._settings.inner is not None:
                progress = progress._replace(inner=self._settings.inner.to_bytes())
        else:
            attempt = f"number {outcome.audit.round}, ended {record.ended}: {record.skipped}"
            progress = progress._replace(attempts=(*before.attempts, attempt))
        if self._settings.checkpoint:
            checkpoints.save(self._settings.checkpoint, progress, roster=self._roster.name)
        return progress

    def measure_once(self, grid: Grid, given: ArrayRecord, config: ConfigRecord, note: Note) -> Measured:
        """Have the clients evaluate once, outside of any round."""
        progress = Progress(0, given, 0)
        leader = self._leader(grid, progress, has_model=bool(given))
        muster = Muster(leader.registry, leader.quarantine, self._settings.server, self._settings.waits)
        attendance = muster(0, finished=0, note=note)
        found, audit = self._asked_to_measure(leader, progress, attendance, config)
        if not found.shards:
            raise OutageError(f"no shard opened, so nothing was measured: {audit.missing}; see the log, and try again")
        return found

    def _measured(
        self,
        progress: Progress,
        leader: RoundLeader,
        attendance: Attendance,
        given: ConfigRecord,
        journal: Journal,
        result: Result,
    ) -> Progress:
        """Have the clients evaluate under masks; return the progress with what it cost, and what they measured."""
        assert progress.record is not None  # noqa: S101  a round was led
        config = ConfigRecord(dict(given) | {SERVER_ROUND: progress.round})
        found, audit = self._asked_to_measure(leader, progress, attendance, config)
        journal.charge(audit)
        means = found.means()
        if means:
            _log.info("f2ed: after round %s, over %s clients: %s", progress.round, sum(found.clients.values()), means)
            result.evaluate_metrics_clientapp[progress.round] = MetricRecord(
                {**means, "clients": sum(found.clients.values())}
            )
        else:
            _log.warning("f2ed: no shard opened for the evaluation after round %s: %s", progress.round, audit.missing)
        deployed = msgspec.structs.replace(progress.record.deployed or Deployed(), measured=means)
        record = msgspec.structs.replace(progress.record, deployed=deployed)
        progress = progress._replace(history=journal.history, following=audit.round + 1, record=record)
        if self._settings.checkpoint:
            checkpoints.save(self._settings.checkpoint, progress, roster=self._roster.name)
        return progress

    def _asked_to_measure(
        self, leader: RoundLeader, progress: Progress, attendance: Attendance, config: ConfigRecord
    ) -> tuple[Measured, Audit]:
        assert isinstance(leader.kind, ShardedRounds)  # noqa: S101  a roster with helpers names no metrics
        return leader.measure(progress, attendance, config, self._settings.deadlines, leader.kind.measure)

    def _resumed(self, initial: ArrayRecord) -> Progress:
        path, seed, inner = self._settings.checkpoint, self._settings.seed, self._settings.inner
        found = path and checkpoints.load(path, roster=self._roster.name, like=initial)
        if not found:
            return Progress(0, initial, int.from_bytes(os.urandom(32), "big") if seed is None else seed)
        if seed not in (None, found.seed):
            raise ConfigError(f"the checkpoint {path} was made with another seed; leave seed out")
        if inner is not None:
            inner.resume(found.inner)
        elif found.inner:
            raise ConfigError(f"the checkpoint {path} holds the state of an inner strategy; give the same one as inner")
        _log.info("f2ed: continuing after round %s, from %s", found.round, path)
        return found

    def _remembering(self, progress: Progress) -> Progress:
        """Return the progress with every sum that the server's log names: a lost checkpoint makes nobody forget."""
        if self._settings.log is None:
            return progress
        lines = log_lines(self._settings.log.file.path)
        return progress._replace(history=with_logged(progress.history, lines, self._roster))

    def _leader(self, grid: Grid, progress: Progress, *, has_model: bool = True) -> RoundLeader:
        settings, job = self._settings.server, self._roster.job(grid.run.run_id)
        spill = self._settings.spill
        connection = Connection(grid, self._settings.heads, sparing=spill is not None)
        pace = Pace(malicious=settings.malicious)
        clip_value = settings.encoding.clip_value
        plan = stated_plan(progress.arrays, self._roster.array_rules, clip_value=clip_value) if has_model else NO_MODEL
        return RoundLeader(
            connection,
            NodeRegistry(connection, self._roster, job, pace=pace, deadlines=self._settings.deadlines),
            pace,
            # A node that is not asked for more than `skip` rounds could not come back.
            Quarantine(settings.names, longest=min(32, self._roster.skip // 2)),
            settings,
            self._kind(plan, job, seed=progress.seed),
            self._settings.log,
            WEIGHTED_BY if self._settings.inner is None else self._settings.inner.weighted_by,
        )

    def _kind(self, plan: UpdatePlan, job: str, *, seed: int) -> RoundKind:
        """Return how rounds hide updates: as the roster says."""
        settings, spill = self._settings.server, self._settings.spill
        step = ServerStep(
            settings.estimator,
            optimizer=settings.optimizer,
            tensors=plan.sizes,
            trained=plan.trained,
            min_rows=settings.min_shards,
            seed=seed,
        )
        if settings.helped:
            check_plan(plan)
            assert self._settings.log is not None  # noqa: S101  such a roster names the server's key
            log = self._settings.log.file
            memory = GuardFile(log.path.with_name(f"{self._roster.lineage}.guard"))
            return HelpedRounds(self._roster, step, plan, job, log.signing_key, spill, memory)
        if spill is not None:
            spill.check_room(settings.bytes_opened(plan.coordinates))
        root_fn, zeros = self._settings.root_fn, np.zeros if spill is None else spill
        return ShardedRounds(settings, step, plan, job, {}, root_fn, zeros)

    def _journal(self, progress: Progress, metrics: dict[str, float], *, rounds: int, coordinates: int) -> Journal:
        """Log what the run guarantees, and open its records."""
        last = None if progress.record is None else msgspec.structs.replace(progress.record, **metrics)
        return Journal(
            self._settings.server,
            run_header(
                self._settings.server,
                rounds=rounds,
                dimension=coordinates,
                seed=self._settings.seed,
                versions={"flwr": version("flwr")},
            ),
            self._settings.records,
            done=progress.round,
            history=progress.history,
            last=last,
        )

    def _publish(
        self, progress: Progress, outcome: RoundOutcome, journal: Journal, evaluation: Evaluation, result: Result
    ) -> None:
        """Evaluate, then write the record; the checkpoint holds it already, so a crash in between loses nothing."""
        record = progress.record
        assert record is not None  # noqa: S101  a round was led
        result.arrays = progress.arrays
        if outcome.metrics is not None:
            result.train_metrics_clientapp[progress.round] = MetricRecord(dict(outcome.metrics))
        since = time.monotonic()
        if (asked := evaluation.clients(progress.round, progress.arrays)) is not None:
            result.evaluate_metrics_clientapp[progress.round] = asked
        metrics = evaluated(evaluation.server, progress, result)
        seconds = msgspec.structs.replace(record.seconds, evaluate=time.monotonic() - since)
        record = msgspec.structs.replace(record, seconds=seconds, **recorded(metrics))
        self._written[-1] = record
        journal.write(record)
        for hook in self._settings.on_round:
            hook(FinishedRound(progress.round, progress.arrays, record, metrics))
