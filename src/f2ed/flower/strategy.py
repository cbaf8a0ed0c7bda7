"""The server's side: used like one of Flower's own strategies, and sees no client's update.

F2ed(roster="roster.json", estimator=FilterL2(contamination=0.1)).start(grid=grid, initial_arrays=arrays, num_rounds=10)
"""

import os
import time
from collections.abc import Callable
from importlib.metadata import version
from logging import getLogger
from math import isfinite
from pathlib import Path
from typing import Literal

import msgspec
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result

from f2ed.core.errors import ConfigError, OutageError
from f2ed.deployment import preflight
from f2ed.deployment.identity import is_test, roster_from
from f2ed.deployment.journal import Journal, RoundOutcome, run_header
from f2ed.deployment.pace import Pace
from f2ed.deployment.quarantine import Quarantine
from f2ed.deployment.roster import Roster
from f2ed.deployment.run_lock import Note, sole_run
from f2ed.deployment.settings import FOLLOWED_IN_TESTS, ServerSettings, Stated, check_roster
from f2ed.deployment.transparency import Heads, server_log
from f2ed.estimators import Estimator, FilterL2
from f2ed.flower import checkpoint as checkpoints
from f2ed.flower.arrays import tensor_sizes
from f2ed.flower.attendance import Muster, Waits
from f2ed.flower.checkpoint import Progress
from f2ed.flower.handover import check_start
from f2ed.flower.node_registry import NodeRegistry
from f2ed.flower.round import RootFn, RoundLeader, checked_root
from f2ed.flower.transport import Connection, Deadlines
from f2ed.protocol.aggregation import ServerStep
from f2ed.protocol.secagg import ModeChoice
from f2ed.records import RoundRecord

__all__ = ["F2ed"]

_log = getLogger("f2ed.flower")

_DEFAULT = FilterL2(contamination=0.1)
_MAX_SEED = 2**63

Metrics = dict[str, float]
EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


class F2ed:
    """Sharded secure aggregation under a robust mean, over Flower."""

    def __init__(
        self,
        *,
        roster: Roster | str | Path,
        estimator: Estimator = _DEFAULT,
        shards: int | Literal["auto"] = "auto",
        mode: ModeChoice = "auto",
        schedule: Literal["auto", "fixed", "every-k-rounds", "every-round", "batches"] = "auto",
        min_crowd: int = 4,
        malicious: int | None = None,
        min_shards: int | None = None,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        bits: int | None = None,
        noise_multiplier: float | None = None,
        delta: float = 1e-5,
        deadline: float = 120.0,
        train_deadline: float = 3600.0,
        min_deadline: float = 30.0,
        wait_for_nodes: float = 300.0,
        max_wait: float = 3600.0,
        max_skipped: int = 10,
        key_rounds: int | None = None,
        checkpoint: str | Path | None = None,
        records: str | Path | None = None,
        server_key: str | Path | None = None,
        seed: int | None = None,
        accept_no_guarantee: bool = False,
        secure: bool = True,
        root_fn: RootFn | None = None,
    ) -> None:
        """Refuse settings that guarantee nothing, before anything starts.

        Shards, schedule, mode, `key_rounds`, clips, bits and noise are part of the signed roster; a value given here
        must match it, since nodes follow theirs alone. Only simulated nodes take clips, bits and noise from here.
        `malicious` is the assumed number of attackers, by default as many shards as the estimator tolerates. With fewer
        than `min_shards` open shards a round is skipped; the default is two per assumed attacker plus one. Deadlines
        are in seconds and apply to each step. They follow the times that most clients need, between `min_deadline` and
        `train_deadline` where clients train, `deadline` elsewhere. With too few clients a round does not begin; after
        `max_wait` seconds, or `max_skipped` rounds in a row that were skipped, the run fails. `delta` is what the
        epsilon of the noise is stated for. `server_key` signs the server's log, which is written beside the records.
        `seed` is for estimators that draw at random, by default fresh randomness. `root_fn` trains the model on data
        that the server trusts, for estimators that use it. `secure=False` sums in the clear: simulated clients only.
        """
        signed = roster if isinstance(roster, Roster) else roster_from(roster)
        stated = Stated(
            shards=shards,
            schedule=schedule,
            mode=mode,
            key_rounds=key_rounds,
            clip_value=clip_value,
            clip_norm=clip_norm,
            bits=bits,
            noise_multiplier=noise_multiplier,
        )
        check_roster(signed, stated, follows=FOLLOWED_IN_TESTS if is_test(signed) else ())
        if is_test(signed):
            _log.warning("f2ed: TEST ROSTER. The keys of all clients are public: nothing is secret. Simulation only.")
        elif not secure:
            raise ConfigError("secure=False with a real roster: its clients send nothing in the clear")
        if seed is not None and not 0 <= seed < _MAX_SEED:
            raise ConfigError(f"a seed of {seed}; it must lie between 0 and 2^63 - 1")
        assumed = (estimator.assumed_f(signed.shards) or 0) if malicious is None else malicious
        preflight.check(signed, assumed, min_crowd, accept_no_guarantee=accept_no_guarantee)
        self._settings = ServerSettings(
            roster=signed,
            estimator=estimator,
            encoding=stated.encoding(signed),
            noise=stated.noise(signed, delta=delta),
            malicious=assumed,
            min_shards=preflight.min_shards(signed, assumed, min_shards),
            secure=secure,
        )
        self.roster = signed
        self.records: list[RoundRecord] = []
        """One for each round that this object has led, and one for each attempt that was skipped."""
        self._seed, self._root_fn = seed, checked_root(estimator, root_fn)
        self._deadlines = Deadlines(deadline, train_deadline, min_deadline)
        self._waits = Waits(wait_for_nodes, max_wait)
        self._max_skipped = max_skipped
        self._checkpoint = Path(checkpoint) if checkpoint else None
        self._records = Path(records) if records else None
        self._heads = None if is_test(signed) else Heads(signed)
        beside = self._records or self._checkpoint
        self._log = server_log(signed, Path(server_key) if server_key else None, beside, self._heads)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Lead the rounds. With a checkpoint, continue after the last finished one. Call it once in a Flower run.

        The arguments are those of Flower's own strategies; `timeout` replaces the deadline for training. Clients are
        not asked for metrics or to evaluate: a loss reveals something about its data, and it is not masked.
        """
        if timeout is not None:
            self._deadlines = self._deadlines._replace(train=timeout)
        if evaluate_config is not None:
            _log.warning("f2ed: clients are not asked to evaluate, so evaluate_config is not used; pass evaluate_fn")
        config = train_config or ConfigRecord()
        check_start(self.roster.training, initial_arrays, config)
        with sole_run([path for path in (self._checkpoint, self._records) if path], grid.run.run_id) as note:
            return self._lead(grid, initial_arrays, num_rounds, config, evaluate_fn, note)

    def _lead(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int,
        train_config: ConfigRecord,
        evaluate_fn: EvaluateFn | None,
        note: Note,
    ) -> Result:
        progress = self._resumed(initial_arrays)
        result = Result(arrays=progress.arrays)
        metrics = _evaluated(evaluate_fn, progress, result)
        leader = self._leader(grid, progress)
        journal = self._journal(progress, metrics, rounds=num_rounds, coordinates=leader.coordinates)
        muster = Muster(leader.registry, leader.quarantine, self._settings, self._waits)
        skipped = 0
        while progress.round < num_rounds:
            note(progress.round + 1)
            attendance = muster(progress.following, finished=progress.round, note=note)
            if self.records:
                leader.check_alone(progress)
            arrays, outcome = leader.lead(progress, attendance, train_config, self._deadlines)
            progress = self._after(progress, arrays, outcome, journal)
            if outcome.result.skipped is None:
                skipped = 0
                self._publish(progress, journal, evaluate_fn, result)
            else:
                skipped += 1
                self._check_skipped(skipped, progress)
        return result

    def _after(self, before: Progress, arrays: ArrayRecord, outcome: RoundOutcome, journal: Journal) -> Progress:
        """Return how far the run is after a round; one that was skipped does not count, and is led again."""
        record = journal.describe(outcome, round_=before.round, attempts=before.attempts)
        self.records.append(record)
        journal.log(record)
        progress = before._replace(
            step=outcome.result.state, history=journal.history, following=outcome.audit.round + 1
        )
        if record.skipped is None:
            progress = progress._replace(round=before.round + 1, arrays=arrays, record=record, attempts=())
        else:
            attempt = f"number {outcome.audit.round}, ended {record.ended}: {record.skipped}"
            progress = progress._replace(attempts=(*before.attempts, attempt))
        if self._checkpoint:
            checkpoints.save(self._checkpoint, progress, roster=self.roster.name)
        return progress

    def _check_skipped(self, skipped: int, progress: Progress) -> None:
        if skipped >= self._max_skipped:
            raise OutageError(
                f"round {progress.round + 1} was skipped {skipped} times in a row, the last time because "
                f"{self.records[-1].skipped}. See the log for the clients that dropped out, then run again; with a "
                f"checkpoint the run continues after round {progress.round}"
            )

    def _resumed(self, initial: ArrayRecord) -> Progress:
        found = self._checkpoint and checkpoints.load(self._checkpoint, roster=self.roster.name, like=initial)
        if not found:
            seed = int.from_bytes(os.urandom(32), "big") if self._seed is None else self._seed
            return Progress(0, initial, seed)
        if self._seed not in (None, found.seed):
            raise ConfigError(f"the checkpoint {self._checkpoint} was made with another seed; leave seed out")
        _log.info("f2ed: continuing after round %s, from %s", found.round, self._checkpoint)
        return found

    def _leader(self, grid: Grid, progress: Progress) -> RoundLeader:
        settings, job = self._settings, self.roster.job(grid.run.run_id)
        connection, pace = Connection(grid, self._heads), Pace(malicious=settings.malicious)
        tensors = tensor_sizes(progress.arrays)
        return RoundLeader(
            connection,
            NodeRegistry(connection, self.roster, job, pace=pace, deadlines=self._deadlines),
            pace,
            # A node that is not asked for more than `skip` rounds could not come back.
            Quarantine(settings.names, longest=min(32, self.roster.skip // 2)),
            job,
            settings,
            ServerStep(settings.estimator, tensors=tensors, min_rows=settings.min_shards, seed=progress.seed),
            sum(tensors),
            {},
            self._log,
            self._root_fn,
        )

    def _journal(self, progress: Progress, metrics: Metrics, *, rounds: int, coordinates: int) -> Journal:
        """Log what the run guarantees, and open its records."""
        last = None if progress.record is None else msgspec.structs.replace(progress.record, **metrics)
        return Journal(
            self._settings,
            run_header(
                self._settings,
                rounds=rounds,
                dimension=coordinates,
                seed=self._seed,
                versions={"flwr": version("flwr")},
            ),
            self._records,
            done=progress.round,
            history=progress.history,
            last=last,
        )

    def _publish(self, progress: Progress, journal: Journal, evaluate_fn: EvaluateFn | None, result: Result) -> None:
        """Evaluate, then write the record; the checkpoint holds it already, so a crash in between loses nothing."""
        record = progress.record
        assert record is not None  # noqa: S101  a round was led
        result.arrays = progress.arrays
        result.train_metrics_clientapp[progress.round] = MetricRecord(
            {
                "shards-opened": self.roster.shards - len(record.excluded),
                "clients-dropped": len(record.dropped),
                "crowd": record.crowd,
            }
        )
        since = time.monotonic()
        metrics = _evaluated(evaluate_fn, progress, result)
        seconds = msgspec.structs.replace(record.seconds, evaluate=time.monotonic() - since)
        record = msgspec.structs.replace(record, seconds=seconds, **metrics)
        self.records[-1] = record
        journal.write(record)


def _evaluated(evaluate_fn: EvaluateFn | None, progress: Progress, result: Result) -> Metrics:
    """Evaluate on the server; return what the round's record holds of it."""
    metrics = None if evaluate_fn is None else evaluate_fn(progress.round, progress.arrays)
    if metrics is None:
        return {}
    result.evaluate_metrics_serverapp[progress.round] = metrics
    _log.info("f2ed: after round %s: %s", progress.round, dict(metrics))
    found = {name: metrics.get(name) for name in ("accuracy", "loss")}
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float) and isfinite(value)}
