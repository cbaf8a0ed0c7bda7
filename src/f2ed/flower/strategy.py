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

from f2ed.core.errors import ConfigError
from f2ed.deployment import preflight
from f2ed.deployment.identity import is_test, roster_from
from f2ed.deployment.journal import Journal, run_header
from f2ed.deployment.roster import Roster
from f2ed.deployment.settings import FOLLOWED_IN_TESTS, ServerSettings, Stated, check_roster
from f2ed.deployment.transparency import Heads, server_log
from f2ed.estimators import Estimator, FilterL2
from f2ed.flower import checkpoint as checkpoints
from f2ed.flower.arrays import tensor_sizes
from f2ed.flower.checkpoint import Progress
from f2ed.flower.handover import check_start
from f2ed.flower.node_registry import NodeRegistry
from f2ed.flower.round import RoundLeader
from f2ed.flower.transport import Connection, Deadlines
from f2ed.protocol.aggregation import ServerStep
from f2ed.protocol.secagg import ModeChoice
from f2ed.records import RoundRecord

__all__ = ["F2ed"]

_log = getLogger("f2ed.flower")

_POLL = 0.5
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
        wait_for_nodes: float = 300.0,
        key_rounds: int | None = None,
        checkpoint: str | Path | None = None,
        records: str | Path | None = None,
        server_key: str | Path | None = None,
        seed: int | None = None,
        accept_no_guarantee: bool = False,
        secure: bool = True,
    ) -> None:
        """Refuse settings that guarantee nothing, before anything starts.

        Shards, schedule, mode, `key_rounds`, clips, bits and noise are part of the signed roster; a value given here
        must match it, since nodes follow theirs alone. Only simulated nodes take clips, bits and noise from here.
        `malicious` is the assumed number of attackers, by default as many shards as the estimator tolerates. With fewer
        than `min_shards` open shards a round is skipped; the default is two per assumed attacker plus one. Deadlines
        are in seconds and apply to each step: `train_deadline` where clients train, `deadline` elsewhere. `delta` is
        what the epsilon of the noise is stated for. `server_key` signs the server's log, which is written beside the
        records. `seed` is for estimators that draw at random, by default fresh randomness. `secure=False` sums in the
        clear: only simulated clients accept it.
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
            min_shards=2 * assumed + 1 if min_shards is None else min_shards,
            secure=secure,
        )
        self.roster = signed
        self.records: list[RoundRecord] = []
        """One for each round that this object has led."""
        self._seed = seed
        self._deadlines = Deadlines(deadline, train_deadline)
        self._wait_seconds = wait_for_nodes
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
        progress = self._resumed(initial_arrays)
        result = Result(arrays=progress.arrays)
        metrics = _evaluated(evaluate_fn, progress, result)
        leader = self._leader(grid, progress)
        journal = self._journal(progress, metrics, rounds=num_rounds, coordinates=leader.coordinates)
        if progress.round < num_rounds:
            self._wait_for_nodes(leader)
        while progress.round < num_rounds:
            arrays, outcome = leader.lead(progress, config, self._deadlines)
            record = journal.describe(outcome)
            progress = Progress(
                round=progress.round + 1,
                arrays=arrays,
                seed=progress.seed,
                step=outcome.result.state,
                history=journal.history,
                record=record,
                following=outcome.audit.round + 1,
            )
            self._publish(progress, journal, evaluate_fn, result)
        return result

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
        connection = Connection(grid, self._heads)
        tensors = tensor_sizes(progress.arrays)
        return RoundLeader(
            connection,
            NodeRegistry(connection, self.roster, job),
            job,
            settings,
            ServerStep(settings.estimator, tensors=tensors, min_rows=settings.min_shards, seed=progress.seed),
            sum(tensors),
            {},
            self._log,
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
            history=progress.history,
            last=last,
        )

    def _wait_for_nodes(self, leader: RoundLeader) -> None:
        """Wait until all clients on the roster are connected, or for as long as was set."""
        until = time.monotonic() + self._wait_seconds
        wanted = len(self.roster.clients)
        while len(leader.connection.node_ids()) < wanted and time.monotonic() < until:
            time.sleep(_POLL)
        present = leader.registry.present(deadline=self._deadlines.step)
        if len(present) < wanted:
            _log.warning("f2ed: %s of %s clients are connected; the others may come later", len(present), wanted)

    def _publish(self, progress: Progress, journal: Journal, evaluate_fn: EvaluateFn | None, result: Result) -> None:
        """Save the checkpoint, evaluate, then write the record: a crash in between loses neither."""
        if self._checkpoint:
            checkpoints.save(self._checkpoint, progress, roster=self.roster.name)
        record = progress.record
        assert record is not None  # noqa: S101  a round was led
        journal.log(record)
        self.records.append(record)  # The evaluation may look at it.
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
