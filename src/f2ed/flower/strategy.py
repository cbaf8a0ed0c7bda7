"""The server's side: looks like one of Flower's own strategies, and sees no client's update.

F2ed(roster="roster.json", estimator=FilterL2(contamination=0.1)).start(grid=grid, initial_arrays=arrays, num_rounds=10)
"""

import time
from collections.abc import Callable
from logging import INFO, WARNING, getLogger
from math import inf
from pathlib import Path
from typing import Literal

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result

from f2ed.core.errors import ConfigError
from f2ed.deployment import preflight
from f2ed.deployment.identity import is_test, roster_from
from f2ed.deployment.roster import Roster
from f2ed.estimators import Estimate, Estimator, FilterL2
from f2ed.flower import checkpoint
from f2ed.flower.arrays import Vector, fingerprint, flat, moved
from f2ed.flower.node_registry import Directory
from f2ed.flower.report import RoundReport, append, report
from f2ed.flower.transport import Line, Round
from f2ed.guarantees import LeakFollower, Unopened, guarantee
from f2ed.protocol.aggregation import Audit, EpochKeys, Protocol, Task, shard_means
from f2ed.protocol.dp import Ledger, Noise
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.protocol.secagg import MIN_CROWD, ModeChoice, scheme_of
from f2ed.protocol.sharding import Assignment, ClientId, Fixed
from f2ed.records import LeakReading

__all__ = ["F2ed"]

_log = getLogger("f2ed.flower")

_POLL = 0.5
_DEFAULT = FilterL2(contamination=0.1)


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
        clip_value: float = 1.0,
        clip_norm: float = inf,
        bits: int = 20,
        noise_multiplier: float | None = None,
        delta: float = 1e-5,
        deadline: float = 120.0,
        train_deadline: float = 3600.0,
        wait_for_nodes: float = 300.0,
        key_rounds: int = 50,
        checkpoint: str | Path | None = None,
        audit: str | Path | None = None,
        accept_no_guarantee: bool = False,
        secure: bool = True,
    ) -> None:
        """Refuse what the numbers do not carry, before anything starts.

        Shards, schedule and crowd stand in the signed roster; to name them here is to insist on them. `malicious` is
        how many attackers are feared, by default as many shards as the estimator withstands. Fewer than `min_shards`
        open shards skip a round; by default two for each feared attacker and one more. Deadlines are in seconds, for
        each step: `train_deadline` where clients train, `deadline` elsewhere. `key_rounds` is how long the keys of
        all-or-nothing shards last. `noise_multiplier` adds noise for differential privacy, whose epsilon is
        stated at `delta`; it needs a `clip_norm`. `secure=False` adds in the clear: only simulated clients accept.
        """
        self.roster = roster if isinstance(roster, Roster) else roster_from(roster)
        self.estimator = estimator
        self._encoding = Encoding(clip_value, clip_norm, bits)
        self._noise = None if noise_multiplier is None else Noise(noise_multiplier=noise_multiplier, delta=delta)
        if self._noise is not None and clip_norm == inf:
            raise ConfigError("noise without an L2 clip; set clip_norm to about the norm of an honest update")
        self._deadlines = deadline, train_deadline
        self._wait = wait_for_nodes
        self._key_rounds = key_rounds
        self._checkpoint = Path(checkpoint) if checkpoint else None
        self._audit = Path(audit) if audit else None
        self._ledger = Ledger()
        self._follower = LeakFollower(self.roster.plan, self.roster.keys)
        self._unopened: tuple[Unopened, ...] = ()
        """What each round did not open; rounds before a checkpoint count as if everyone had taken part."""
        self._secure = secure
        self._insist(shards, schedule)
        self.malicious = estimator.assumed_f(self.roster.shards) or 0 if malicious is None else malicious
        self.min_shards = 2 * self.malicious + 1 if min_shards is None else min_shards
        self._protocol = Protocol(mode=mode, min_crowd=max(MIN_CROWD, self.roster.min_crowd))
        self.reports: list[RoundReport] = []
        """One for each round that this object has led."""
        preflight.check(self.roster, self.malicious, min_crowd, accept_no_guarantee=accept_no_guarantee)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Lead the rounds. With a checkpoint it goes on after the last finished one. Call it once in a Flower run.

        The arguments are those of Flower's own strategies; `timeout` replaces the deadline for training. Metrics of
        the clients are not collected, and clients are not asked to evaluate: a loss tells about its data, and nobody
        masks it.
        """
        if timeout is not None:
            self._deadlines = self._deadlines[0], timeout
        if evaluate_config is not None:
            _log.log(
                WARNING, "f2ed: clients are not asked to evaluate, so evaluate_config is not used; give evaluate_fn"
            )
        job = self.roster.job(grid.run.run_id)
        line = Line(grid)
        directory = Directory(line, self.roster, job)
        arrays, done, spent = self._resumed(initial_arrays)
        self._ledger = Ledger(spent)
        if self._noise is not None:
            size = len(flat(arrays))
            preflight.announce_noise(
                self._noise, self._encoding, self.roster, self._protocol, coordinates=size, rounds=num_rounds
            )
        result = Result(arrays=arrays)
        self._evaluate(done, arrays, evaluate_fn, result)
        if num_rounds > done:
            preflight.warn_of_leaks(self.roster, self._protocol, rounds=num_rounds)
        self._unopened = (Unopened(),) * done
        self._gather(line, directory, rounds=num_rounds - done)
        keys: EpochKeys = {}
        for number in range(done + 1, num_rounds + 1):
            config = ConfigRecord({"server-round": number, **(train_config or {})})
            step = self._round(line, directory, job, number, arrays, config, keys)
            if step is not None:
                arrays = moved(arrays, step)
            if self._checkpoint:
                name = self.roster.name
                checkpoint.save(self._checkpoint, round_=number, roster=name, arrays=arrays, spent=self._ledger.spent)
            self._publish(result, arrays)
            self._evaluate(number, arrays, evaluate_fn, result)
        return result

    def _round(
        self,
        line: Line,
        directory: Directory,
        job: str,
        number: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        keys: EpochKeys,
    ) -> Vector | None:
        """Lead one round; return the step of the model, or None if it is skipped."""
        since = time.monotonic()
        deadline, train_deadline = self._deadlines
        exchange = Round(
            line,
            directory.present(deadline=deadline),
            number=number,
            model=fingerprint(arrays),
            arrays=arrays,
            config=config,
            deadline=deadline,
            train_deadline=train_deadline,
        )
        turn = number - 1  # The protocol counts from 0, Flower's users from 1.
        plan = self.roster.plan(turn)
        task = Task(
            job=job,
            round=turn,
            model=exchange.model,
            coordinates=len(flat(arrays)),
            encoding=self._encoding,
            roster=self.roster.keys,
            protocol=self._protocol,
            noise=0.0 if self._noise is None else self._noise.noise_multiplier,
            epoch=turn // self._key_rounds if isinstance(self.roster.schedule, Fixed) else None,
            secure=self._secure,
        )
        # With several steps in lockstep, a slow shard would delay the others.
        independent = any(scheme_of(self._protocol.mode_for(len(shard))).several_steps for shard in plan.shards)
        means, audit = shard_means(exchange, plan, task, keys=keys, independent=independent)
        self._ledger = self._ledger.charge(audit.privacy_costs)
        estimate, skipped = self._estimate(means, audit)
        found = report(
            audit,
            estimate,
            round_=number,
            skipped=skipped,
            errors=exchange.errors,
            malicious=self.malicious,
            guarantee=self._region(len(audit.opened)),
            meter=self._reading(plan, audit),
            epsilon=self._dp_epsilon(audit),
            seconds=time.monotonic() - since,
        )
        self.reports.append(found)
        _log.log(INFO if skipped is None else WARNING, "f2ed: %s", found.line())
        for shard, why in audit.missing.items():
            _log.log(WARNING, "f2ed: shard %s stayed closed: %s", shard, why)
        if self._audit:
            append(self._audit, found)
        return None if estimate is None else estimate.mean

    def _estimate(self, means: Vector, audit: Audit) -> tuple[Estimate | None, str | None]:
        if len(means) < self.min_shards:
            return None, f"{len(means)} of {len(audit.shards)} shards opened, and it takes {self.min_shards}"
        try:
            return self.estimator(means), None
        except ConfigError as error:
            return None, f"the estimator cannot work on {len(means)} shards: {error}"

    def _reading(self, assignment: Assignment, audit: Audit) -> LeakReading:
        opened = {each.shard: each.survivors for each in audit.shards if each.survivors}
        self._unopened = (*self._unopened, Unopened.of(assignment, opened))
        return self._follower(self._unopened)

    def _dp_epsilon(self, audit: Audit) -> dict[ClientId, float] | None:
        if self._noise is None:
            return None
        members = sorted(client for each in audit.shards for client in each.members)
        return self._ledger.dp_epsilon(members, delta=self._noise.delta)

    def _region(self, opened: int) -> Literal["theorem", "experience", "nothing"]:
        if not opened:
            return "nothing"
        return guarantee(clients=len(self.roster.clients), malicious=self.malicious, shards=opened).region

    def _resumed(self, initial: ArrayRecord) -> tuple[ArrayRecord, int, dict[ClientId, float]]:
        found = self._checkpoint and checkpoint.load(self._checkpoint, roster=self.roster.name, like=initial)
        if not found:
            return initial, 0, {}
        _log.log(INFO, "f2ed: going on after round %s, from %s", found.round, self._checkpoint)
        return found.record(), found.round, found.spent

    def _gather(self, line: Line, directory: Directory, *, rounds: int) -> None:
        """Wait until everyone on the roster is connected, or for as long as was set."""
        until = time.monotonic() + self._wait
        wanted = len(self.roster.clients)
        while rounds > 0 and len(line.node_ids()) < wanted and time.monotonic() < until:
            time.sleep(_POLL)
        present = directory.present(deadline=self._deadlines[0]) if rounds > 0 else {}
        if rounds > 0 and len(present) < wanted:
            _log.log(WARNING, "f2ed: %s of %s clients are there; the others may come later", len(present), wanted)

    def _evaluate(
        self,
        number: int,
        arrays: ArrayRecord,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None,
        result: Result,
    ) -> None:
        if evaluate_fn is not None and (metrics := evaluate_fn(number, arrays)) is not None:
            result.evaluate_metrics_serverapp[number] = metrics
            _log.log(INFO, "f2ed: after round %s: %s", number, dict(metrics))

    def _publish(self, result: Result, arrays: ArrayRecord) -> None:
        last = self.reports[-1]
        result.arrays = arrays
        result.train_metrics_clientapp[last.round] = MetricRecord(
            {
                "shards-opened": len(last.opened),
                "clients-dropped": len(last.dropped),
                "crowd": last.crowd,
            }
        )

    def _insist(self, shards: int | str, schedule: str) -> None:
        """Refuse settings that the signed roster contradicts: no client would follow them."""
        if not self.roster.signature or not self.roster.shards:
            raise ConfigError(f"the roster {self.roster.name!r} is a draft; sign it first: f2ed roster sign")
        if shards not in ("auto", self.roster.shards):
            raise ConfigError(
                f"{shards} shards, and the roster was signed for {self.roster.shards}; sign it anew for another number"
            )
        kind = type(self.roster.schedule).__struct_config__.tag
        if schedule not in ("auto", kind):
            raise ConfigError(f"the schedule {schedule!r}, and the roster was signed for {kind!r}; sign it anew")
        if is_test(self.roster):
            _log.log(
                WARNING, "f2ed: TEST ROSTER. The keys of all clients are public: nothing is secret. Simulation only."
            )
        elif not self._secure:
            raise ConfigError("secure=False with a real roster: its clients send nothing in the clear")
