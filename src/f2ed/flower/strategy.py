"""The server's side: one of Flower's strategies, which sees no client's update.

F2ed(roster="roster.json", estimator=FilterL2(contamination=0.1)).start(grid=grid, initial_arrays=arrays, num_rounds=10)

A round takes several exchanges with the clients, so `start` leads it, and not the loop of Flower's base class. The
hooks of that class are called all the same. `configure_train` says what all clients are given, in one message that
stands for all; `aggregate_train` gets one reply, the model after the robust mean. So strategies that override them, and
strategies inside of this one (`inner`), work on what the server may see.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from logging import getLogger
from pathlib import Path
from typing import Literal

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result, Strategy

from f2ed.core.errors import ConfigError, Refusal
from f2ed.core.spill import spill_beside
from f2ed.deployment import preflight
from f2ed.deployment.identity import is_test, roster_from
from f2ed.deployment.masked_metrics import Measured
from f2ed.deployment.roster import Roster
from f2ed.deployment.run_lock import sole_run
from f2ed.deployment.settings import FOLLOWED_IN_TESTS, Stated, check_roster
from f2ed.deployment.training_rules import EVALUATE, SERVER_ROUND
from f2ed.deployment.transparency import Heads, server_log
from f2ed.estimators import Estimator
from f2ed.flower.arguments import checked
from f2ed.flower.attendance import Waits
from f2ed.flower.evaluation import EvaluateFn, Evaluation
from f2ed.flower.flowers_own import refuse_others
from f2ed.flower.handover import check_model, check_start
from f2ed.flower.hooks import OnRound, TrainConfig, check_hooks, scheduled
from f2ed.flower.inner import WEIGHTED_BY, Inner
from f2ed.flower.round import RootFn, checked_root
from f2ed.flower.round_input import RoundInputs, one_message
from f2ed.flower.run import RunLeader, RunSettings
from f2ed.flower.subset import declared
from f2ed.flower.transport import Deadlines
from f2ed.flower.wire import ARRAYS, CONFIG, OURS
from f2ed.protocol import aggregation
from f2ed.protocol.aggregation import ServerOptimizer
from f2ed.protocol.secagg import ModeChoice
from f2ed.records import RoundRecord

__all__ = ["F2ed"]

_log = getLogger("f2ed.flower")

_AVERAGE = aggregation.FedAvg()


class F2ed(Strategy):
    """Secure aggregation under a robust mean, over Flower: in shards, or with helpers where the roster names them."""

    @checked
    def __init__(
        self,
        *,
        roster: Roster | str | Path,
        estimator: Estimator | None = None,
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
        server_optimizer: ServerOptimizer | None = None,
        inner: Strategy | None = None,
        on_round: OnRound | Sequence[OnRound] = (),
        root_fn: RootFn | None = None,
        trained_arrays: Sequence[str] | None = None,
        memory_budget: int | None = None,
        spill_folder: str | Path | None = None,
        **others: object,
    ) -> None:
        """Refuse settings that guarantee nothing, before anything starts.

        Shards, schedule, mode, `key_rounds`, clips, bits and noise are part of the signed roster; a value given here
        must match it, since nodes follow theirs alone. Only simulated nodes take clips, bits and noise from here.
        So is the estimator where the roster names helpers; otherwise it is FilterL2(contamination=0.1) by default.
        `malicious` is the assumed number of attackers, by default as many shards as the estimator tolerates. With fewer
        than `min_shards` open shards a round is skipped; the default is two per assumed attacker plus one. Deadlines
        are in seconds and apply to each step. They follow the times that most clients need, between `min_deadline` and
        `train_deadline` where clients train, `deadline` elsewhere. With too few clients a round does not begin; after
        `max_wait` seconds, or `max_skipped` rounds in a row that were skipped, the run fails. `delta` is what the
        epsilon of the noise is stated for. `server_key` signs the server's log, which is written beside the records.
        `seed` is for estimators that draw at random, by default fresh randomness. `secure=False` sums in the clear:
        only simulated clients accept it. `server_optimizer` makes a step of the robust mean, and so may `inner`, a
        strategy of Flower's. `on_round` is called after each round, with a `FinishedRound`. `root_fn` trains the model
        on data that the server trusts, for estimators that use it. `trained_arrays` are patterns for the names of the
        arrays that travel and are averaged; the others stay as they are, and nodes have their own. `memory_budget`
        bounds, in bytes, the sums and means of shards in memory; more are in files of `spill_folder`, by default where
        the checkpoint or records are, which vanish with the run.
        """
        refuse_others(others)
        if inner is not None and server_optimizer is not None:
            raise ConfigError("server_optimizer and inner both make a step of the robust mean; give one of them")
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
        settings = preflight.checked_settings(
            signed,
            stated,
            estimator=estimator,
            delta=delta,
            malicious=malicious,
            min_shards=min_shards,
            min_crowd=min_crowd,
            secure=secure,
            optimizer=_AVERAGE if server_optimizer is None else server_optimizer,
            accept_no_guarantee=accept_no_guarantee,
        )
        if settings.helped and not checkpoint:
            raise ConfigError(
                "a roster with helpers, and no checkpoint; name a file: the server remembers there who was in the sums "
                "of an epoch, and a run that forgot it could be led to open the difference of two"
            )
        self.roster = signed
        self.records: list[RoundRecord] = []
        """One for each round that this object has led, and one for each attempt that was skipped."""
        self._evaluates = False
        self._trained_arrays = trained_arrays
        kept, written = Path(checkpoint) if checkpoint else None, Path(records) if records else None
        heads = None if is_test(signed) else Heads(signed)
        self._run = RunSettings(
            server=settings,
            deadlines=Deadlines(deadline, train_deadline, min_deadline),
            waits=Waits(wait_for_nodes, max_wait),
            max_skipped=max_skipped,
            checkpoint=kept,
            records=written,
            heads=heads,
            log=server_log(signed, Path(server_key) if server_key else None, written or kept, heads),
            seed=seed,
            root_fn=checked_root(settings.estimator, root_fn),
            on_round=(on_round,) if callable(on_round) else tuple(on_round),
            inner=None if inner is None else Inner(inner, clients=len(signed.clients)),
            spill=spill_beside(kept or written, budget=memory_budget, folder=spill_folder),
        )

    @checked
    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float | None = None,
        train_config: TrainConfig = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Lead the rounds. With a checkpoint, continue after the last finished one. Call it once in a Flower run.

        The arguments are those of Flower's own strategies; `timeout` replaces the deadline for training, and
        `train_config` may be a function of the round. Clients are asked to evaluate only where the roster allows it and
        `evaluate_config` is given: the metrics that it names leave in sums under masks, after each round.
        """
        if timeout is not None:
            self._run.deadlines = self._run.deadlines._replace(train=timeout)
        configs = scheduled(train_config, num_rounds)
        rules, given = self.roster.training, evaluate_config or ConfigRecord()
        masked = given if evaluate_config is not None and rules.masked_metrics else None
        check_hooks(self._run.on_round, evaluates=evaluate_fn is not None)
        check_model(initial_arrays)
        subset = declared(initial_arrays, self._trained_arrays)
        given_arrays = subset.part(initial_arrays)
        check_start(rules, given_arrays, configs if masked is None else [*configs, masked])
        self.summary()
        self._evaluates = evaluate_config is not None and EVALUATE in rules.messages and masked is None
        if evaluate_config is not None and not self._evaluates and masked is None:
            _log.warning("f2ed: clients are not asked to evaluate, so evaluate_config is not used; pass evaluate_fn")
        inputs = RoundInputs(partial(self.configure_train, grid=grid), configs, rules)
        evaluation = Evaluation(
            subset.evaluating(evaluate_fn), partial(self._asked_to_evaluate, config=given, grid=grid), masked
        )
        leader = RunLeader(subset.settings(self._run), self.aggregate_train, self.records)
        with sole_run(filter(None, (self._run.checkpoint, self._run.records)), grid.run.run_id) as note:
            result = leader.lead(grid, given_arrays, num_rounds, inputs, evaluation, note)
        result.arrays = subset.whole(result.arrays)
        return result

    def measure(self, grid: Grid, arrays: ArrayRecord | None = None, config: ConfigRecord | None = None) -> Measured:
        """Have the clients evaluate once, under masks and without training: analytics over their data.

        They are given these arrays, a model or nothing, and answer with the metrics that the roster names. Call it in
        place of `start`. It writes neither records nor a checkpoint; nodes charge their own budgets as for a round.
        """
        rules, given = self.roster.training, ArrayRecord() if arrays is None else arrays
        if self._run.checkpoint is not None or self._run.records is not None:
            raise ConfigError("measure keeps neither checkpoint nor records; give it an F2ed without them")
        if not rules.masked_metrics:
            raise ConfigError("the roster names no metrics; the authority allows some with f2ed roster sign --metric")
        if arrays is not None:
            check_start(rules, arrays, [config or ConfigRecord()])
        leader = RunLeader(self._run, self.aggregate_train, self.records)
        return leader.measure_once(grid, given, config or ConfigRecord(), lambda *_: None)

    def configure_train(
        self,
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Grid,  # noqa: ARG002  the roster says who takes part
    ) -> Iterable[Message]:
        """Return what all clients are given, as one message or as equal ones; override it to change `config`."""
        if self._run.inner is not None:
            return self._run.inner.configure_train(server_round, arrays, config)
        return [one_message(arrays, config)]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the next model from one reply, which holds the model after the robust mean; override it to go on."""
        every = list(replies)
        if len(every) != 1 or every[0].has_error() or ARRAYS not in every[0].content.array_records:
            raise ConfigError(
                f"aggregate_train got {len(every)} replies of clients; F2ed gives it one, with the robust mean. Call "
                "start, which leads the exchanges with the clients"
            )
        if self._run.inner is not None:
            return self._run.inner.strategy.aggregate_train(server_round, every)
        content = every[0].content
        (counts,) = content.metric_records.values()
        return content.array_records[ARRAYS], MetricRecord({k: v for k, v in counts.items() if k != WEIGHTED_BY})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return nothing, unless the roster lets clients evaluate in the clear and `evaluate_config` was given."""
        if not self._evaluates:
            return []
        config[SERVER_ROUND] = server_round
        content = RecordDict({ARRAYS: arrays, CONFIG: config})
        return [Message(content, node, EVALUATE) for node in grid.get_node_ids()]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return the mean of what clients sent in the clear, weighted by their `num-examples`."""
        strategy = FedAvg() if self._run.inner is None else self._run.inner.strategy
        return strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """Log what this strategy is made of."""
        settings = self._run.server
        then = settings.optimizer if self._run.inner is None else self._run.inner.strategy
        clients = len(self.roster.clients)
        rows = f"{clients} clients" if settings.helped else f"{self.roster.shards} shards of {clients} clients"
        rule = type(settings.estimator).__name__
        _log.info("f2ed: %s over %s (%s), then %s", rule, rows, settings.mode, type(then).__name__)

    def _asked_to_evaluate(
        self, round_: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> MetricRecord | None:
        messages = list(self.configure_evaluate(round_, arrays, config, grid))
        if not messages:
            return None
        try:
            self.roster.training.check_message(messages[0].metadata.message_type)
        except Refusal as error:
            raise ConfigError(f"the clients would refuse what configure_evaluate asks for: {error}") from None
        replies = grid.send_and_receive(messages, timeout=self._run.deadlines.train)
        # The node of a helper refuses, in the protocol's record.
        good = [reply for reply in replies if not reply.has_error() and OURS not in reply.content]
        return self.aggregate_evaluate(round_, good) if good else None
