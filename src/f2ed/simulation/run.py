"""One run, round by round: train, attack, protect, sum, estimate, move, evaluate, record."""

import warnings
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from f2ed.core.errors import ConfigError, LeakWarning
from f2ed.core.randomness import stream
from f2ed.estimators import Estimate
from f2ed.learning import ClientMomentum, Cohort, Data, Evaluator, MomentumState, TrainingJob, flatten, split_samples
from f2ed.learning.datasets.base import Notify, quiet
from f2ed.learning.threads import cores
from f2ed.protocol.aggregation import ServerStep
from f2ed.protocol.dp import Ledger
from f2ed.records import RoundRecord
from f2ed.simulation.adversary import Attackers
from f2ed.simulation.checkpoint import State
from f2ed.simulation.config import Experiment, experiment
from f2ed.simulation.first_round_cache import FirstRoundCache
from f2ed.simulation.header import digest, header, holds
from f2ed.simulation.leak_meter import Follower, away, warning
from f2ed.simulation.shard_rows import Bare, Rows, Sharded
from f2ed.simulation.stopwatch import Stopwatch
from f2ed.simulation.validate import check, check_data

__all__ = ["Simulation", "simulate"]


def simulate(
    settings: Experiment | None = None,
    /,
    *,
    device: str = "cpu",
    folder: Path | None = None,
    notify: Notify = quiet,
    strict: bool = False,
    **stated: Any,
) -> Iterator[RoundRecord]:
    """Make an experiment ready, and return an iterator that takes a round at a time and yields its record.

    Settings are an `Experiment`, or keywords as in an experiment file: `simulate(data="digits", clients=30,
    malicious=3, shards=10, attack="trimmed-mean-attack", rounds=5)`. `folder` is where data sets are stored. A schedule
    that would expose a client within these rounds raises a warning, or an error if `strict`.
    """
    if (settings is None) == (not stated):
        raise ConfigError("simulate wants an Experiment or settings as keywords, one of the two")
    settings = settings or experiment(stated)
    if (exposed := warning(settings)) is not None:
        if strict:
            raise ConfigError(exposed)
        warnings.warn(exposed, LeakWarning, stacklevel=2)
    simulation = Simulation(settings, device=device, folder=folder, notify=notify)
    return (record for _, record in simulation.rounds())


class Simulation:
    """A run made ready: data dealt, model built, clients with their keys. `step` is one round."""

    def __init__(
        self,
        experiment: Experiment,
        *,
        name: str = "",
        arm: dict[str, str] | None = None,
        data: Data | None = None,
        device: str = "cpu",
        folder: Path | None = None,
        workers: int | None = None,
        first_rounds: FirstRoundCache | None = None,
        notify: Notify = quiet,
    ) -> None:
        check(experiment)
        data = experiment.data(folder, notify=notify) if data is None else data
        partition = check_data(experiment, data)
        self.experiment, self.device = experiment, torch.device(device)
        self.digest = digest(experiment)
        self.data = data.to(self.device)
        seed, workers = experiment.seed, workers or cores()
        module = experiment.model(data.shape, data.classes, seed)
        self._first = flatten(module).to(self.device)
        self._cohort = Cohort(
            module, device=self.device, workers=workers if self.device.type == "cpu" else None, notify=notify
        )
        self._first_rounds = first_rounds or FirstRoundCache(0)
        self._evaluator = Evaluator(module, self.device, workers=workers)
        self._clients = split_samples(self.data.train, partition)
        picked = stream(seed, "malicious").permutation(experiment.clients)[: experiment.malicious]
        self.malicious = tuple(sorted(map(int, picked)))
        self._attackers = self._enlist()
        self._rows = Sharded(experiment, self.digest[:16], workers) if experiment.sharded else Bare(experiment)
        self._follower = Follower(self._rows.plan, experiment.clients)
        self._step = ServerStep(experiment.estimator, tensors=self._cohort.layout.sizes, seed=seed)
        self.header = header(
            experiment,
            name=name or self.digest[:8],
            arm=arm or {},
            device=self.device,
            dimension=self._cohort.layout.dimension,
            malicious=self.malicious,
            partition=partition,
            plan=self._rows.plan(0),
            mode=self._rows.mode,
        )

    def start(self) -> State:
        """Return where the run stands before its first round."""
        memory = None
        if self.experiment.client_momentum is not None:
            memory = MomentumState.empty(self.experiment.clients, self._cohort.layout.dimension, self.device)
        return State(0, self._first, memory=memory)

    def rounds(self, state: State | None = None) -> Iterator[tuple[State, RoundRecord]]:
        """Yield each round's record with the state after it, from the state given or from the start."""
        state = state or self.start()
        while state.round < self.experiment.rounds:
            state, record = self.step(state)
            yield state, record

    def step(self, state: State) -> tuple[State, RoundRecord]:
        """Take one round; the same state always gives the same."""
        watch = Stopwatch(self.device)
        updates, memory = self._train(state, watch)
        absent = self._absent(state.round)
        with watch("sum"):
            rows = self._rows(updates, state.model, state.round, absent)
        watch.add("sum", -rows.protect)
        watch.add("protect", rows.protect)
        del updates
        with watch("estimate"):
            estimate, skipped, step = self._step(rows.matrix, state.step, round_=state.round)
            moved = None if estimate is None else torch.as_tensor(estimate.mean).to(self.device)
            model = state.model if moved is None else state.model + moved
        with watch("evaluate"):
            score = self._evaluator.score(model, self.data.test)
            success = None if self._attackers is None else self._attackers.success(self._evaluator, model)
        ledger = state.ledger if rows.audit is None else state.ledger.charge(rows.audit.privacy_costs)
        missed = (*state.away, away(rows, self._rows.plan(state.round)))
        record = RoundRecord(
            round=state.round,
            accuracy=score.accuracy,
            loss=score.loss if isfinite(score.loss) else None,
            success=None if success is None else success.others,
            success_every=None if success is None else success.every,
            step=0.0 if moved is None else float(torch.linalg.vector_norm(moved, dtype=torch.float64)),
            skipped=skipped,
            stopped="" if estimate is None else estimate.stopped,
            dropped=absent,
            leak=self._follower(missed) if self.experiment.sharded else None,
            dp_epsilon=self._dp_epsilon(ledger),
            seconds=watch.read(),
            **self._seen(rows, estimate, state.round),
        )
        return State(state.round + 1, model, step, memory, missed, ledger), record

    def _enlist(self) -> Attackers | None:
        it = self.experiment
        if it.attack is None:
            return None
        own = [self._clients[client] for client in self.malicious]
        return Attackers(
            it.attack,
            self.malicious,
            own,
            data=self.data,
            training=it.training,
            estimator=it.estimator,
            seed=it.seed,
        )

    def _train(self, state: State, watch: Stopwatch) -> tuple[Tensor, MomentumState | None]:
        """Return what every client sends, [n, d], and the clients' momentum afterwards."""
        attackers = self._attackers if state.round >= self.experiment.attack_from else None
        everyone = range(self.experiment.clients)
        honest = [client for client in everyone if attackers is None or client not in attackers.clients]
        # Malicious clients that train as the others do train along with them.
        astray = attackers is not None and not attackers.attack.trains_honestly
        with watch("train"):
            trained = honest if astray else list(everyone)
            updates = self._updates(state, trained)
            memory = state.memory
            if self.experiment.client_momentum is not None and memory is not None:
                updates, memory = ClientMomentum(self.experiment.client_momentum)(updates, trained, memory)
        if attackers is None:
            return updates, memory
        with watch("attack"):
            shards = self._rows.plan(state.round).shards
            malicious = list(attackers.clients)
            own = attackers.train(self._cohort, state.model, shards, state.round) if astray else updates[malicious]
            sent = attackers.send(
                own,
                updates if astray else updates[honest],
                model=state.model,
                shards=shards,
                tensors=self._cohort.layout.sizes,
                round_=state.round,
            )
            if astray:
                every = updates.new_empty(len(everyone), updates.shape[1])
                every[honest] = updates
                updates = every
            updates[malicious] = sent.to(updates)
        return updates, memory

    def _updates(self, state: State, clients: list[int]) -> Tensor:
        """Return by how much honest training moves each client, [n, d]; a first round may have been trained before."""
        it = self.experiment
        jobs = [TrainingJob(client, self._clients[client], it.training) for client in clients]

        def train() -> Tensor:
            return self._cohort(state.model, jobs, seed=it.seed, round_=state.round)

        if state.round or state.model is not self._first:
            return train()
        alike = it.data, it.partition, it.model, it.training, it.clients, it.seed, self.device, tuple(clients)
        return self._first_rounds(alike, train)

    def _absent(self, round_: int) -> dict[int, str]:
        """Draw who falls silent in this round."""
        if not self.experiment.client_dropout:
            return {}
        lots = stream(self.experiment.seed, "dropout", round_).random(self.experiment.clients)
        return {int(client): "dropped out" for client in np.flatnonzero(lots < self.experiment.client_dropout)}

    def _dp_epsilon(self, ledger: Ledger) -> float | dict[int, float] | None:
        """Return what each client has spent after this round; one number where it is the same for all."""
        if self.experiment.dp is None:
            return None
        spent = ledger.dp_epsilon(range(self.experiment.clients), delta=self.experiment.dp.delta)
        every = {client: round(epsilon, 4) for client, epsilon in spent.items()}
        return every[0] if len(set(every.values())) == 1 else every

    def _seen(self, rows: Rows, estimate: Estimate | None, round_: int) -> dict[str, Any]:
        """Return what the record says about the shards."""
        shards = self._rows.plan(round_).shards
        bad = set() if self._attackers is None else set(self._attackers.clients)
        contaminated = tuple(number for number, members in enumerate(shards) if not bad.isdisjoint(members))
        excluded, weights = dict(rows.excluded), None
        if estimate is not None:
            excluded |= {rows.numbers[row]: "not finite" for row in estimate.excluded}
            if estimate.weights is not None:
                every = np.zeros(len(shards))
                every[list(rows.numbers)] = estimate.weights
                weights = tuple(float(weight) for weight in every)
        seen: dict[str, Any] = {
            "weights": weights,
            "excluded": dict(sorted(excluded.items())),
            "contaminated": contaminated,
            "eigenvalue": None if estimate is None else estimate.eigenvalue,
            "iterations": 0 if estimate is None else estimate.iterations,
            "guarantee": holds(self.experiment, len(rows.numbers)).region,
        }
        if rows.audit is not None:
            audits, n = rows.audit.shards, self.experiment.clients
            seen |= {
                "crowd": rows.audit.crowd,
                "clipped": sum(each.clipped for each in audits),
                "clipped_honest": sum(each.clipped for each in audits if each.shard not in contaminated),
                "shortened": sum(each.shortened for each in audits),
                "bytes_up": round(sum(each.bytes_up for each in audits) / n),
                "bytes_down": round(sum(each.bytes_down for each in audits) / n),
            }
        return seen
