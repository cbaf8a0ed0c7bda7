"""One run, round by round: train, attack, protect, sum, estimate, move the model, evaluate, record."""

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from f2ed.core.errors import ConfigError, LeakWarning
from f2ed.core.randomness import stream
from f2ed.core.threads import cores
from f2ed.guarantees import Unopened
from f2ed.learning import ClientData, Cohort, Data, Evaluator, MomentumState, flatten, load, split_samples
from f2ed.learning.datasets import Given
from f2ed.learning.datasets.base import Notify, quiet
from f2ed.learning.datasets.tables import found_file
from f2ed.learning.device import found_device
from f2ed.learning.saved import saved_vector
from f2ed.protocol.aggregation import ServerStep, StepResult
from f2ed.protocol.sharding import Assignment
from f2ed.records import RoundRecord
from f2ed.simulation.adversary import Adversary, reached
from f2ed.simulation.arguments import check_arguments
from f2ed.simulation.assignments import Assignments
from f2ed.simulation.checkpoint import SimulationState
from f2ed.simulation.client_weights import ClientWeights, client_weights
from f2ed.simulation.config import Experiment, experiment
from f2ed.simulation.first_round_cache import FirstRoundCache
from f2ed.simulation.header import digest, header
from f2ed.simulation.helped import Helped, unsummed
from f2ed.simulation.leak_meter import unopened, warning
from f2ed.simulation.local_updates import LocalUpdates
from f2ed.simulation.model_buffers import ModelBuffers
from f2ed.simulation.opened_rows import OpenedRows, Sharded, Unsharded
from f2ed.simulation.own_failures import own_code
from f2ed.simulation.placement import malicious_clients
from f2ed.simulation.recorder import Recorder
from f2ed.simulation.results import Run
from f2ed.simulation.root_updates import RootUpdates
from f2ed.simulation.stopwatch import Stopwatch
from f2ed.simulation.validate import check, check_data

__all__ = ["Simulation", "simulate"]


def simulate(
    settings: Experiment | Mapping[str, Any] | None = None,
    /,
    *,
    device: str = "cpu",
    folder: Path | str | None = None,
    notify: Notify = quiet,
    strict: bool = False,
    **stated: Any,
) -> Run:
    """Prepare an experiment; return its `Run`, which runs one round at a time as you iterate over its records.

    Settings are an `Experiment`, a dictionary, or keywords as in an experiment file: `simulate(data="digits",
    clients=30, malicious=3, shards=10, attack="trimmed-mean-attack", rounds=5)`. `folder` is where data sets are
    stored. A schedule that would expose a client within these rounds raises a warning, or an error if `strict`.
    """
    check_arguments(strict=strict)
    if (settings is None) == (not stated):
        found = "neither" if settings is None else "both"
        raise ConfigError(
            f"simulate takes an Experiment or settings as keywords, and found {found}; give one of the two"
        )
    if not isinstance(settings, Experiment | Mapping | None):
        raise ConfigError(
            f"simulate takes an Experiment, a dictionary or keywords; found a {type(settings).__name__}: for an "
            "experiment file use f2ed run"
        )
    settings = settings if isinstance(settings, Experiment) else experiment(stated if settings is None else settings)
    if (exposed := warning(settings)) is not None:
        if strict:
            raise ConfigError(exposed)
        warnings.warn(exposed, LeakWarning, stacklevel=2)
    return Run(Simulation(settings, device=device, folder=folder, notify=notify))


class Simulation:
    """A run ready to start: data partitioned, model built, clients with their keys. `step` is one round."""

    def __init__(
        self,
        experiment: Experiment,
        *,
        name: str = "",
        arm: dict[str, str] | None = None,
        data: Data | None = None,
        device: str = "cpu",
        folder: Path | str | None = None,
        workers: int | None = None,
        first_rounds: FirstRoundCache | None = None,
        notify: Notify = quiet,
    ) -> None:
        check_arguments(experiment=experiment, name=name, data=data, device=device, folder=folder)
        check_arguments(workers=workers, notify=notify)
        check(experiment)
        if data is None:
            data = experiment.data.load(None if folder is None else Path(folder), notify=notify)
        elif data.origin != experiment.data:
            # The record must not name a data set that was not used.
            experiment = msgspec.structs.replace(experiment, data=Given.of(data))
        partition = check_data(experiment, data)
        self.experiment, self.device = experiment, found_device(device)
        self.digest = digest(experiment)
        self.data = data.to(self.device)
        seed, workers = experiment.seed, workers or cores()
        loss = experiment.task
        module = experiment.model(data.shape, loss.outputs(data), seed)
        self._module = module
        if experiment.start is not None:
            load(module, saved_vector(found_file(experiment.start, None), module))
        self._first_model = flatten(module).to(self.device)
        on_cpu = self.device.type == "cpu"
        cohort = Cohort(module, loss=loss, device=self.device, workers=workers if on_cpu else None, notify=notify)
        self._dimension = cohort.layout.dimension
        self._buffers = ModelBuffers(experiment, cohort.layout)
        plan = self._buffers.plan
        clients = split_samples(self.data.train, partition)
        self._assignments = Assignments(experiment)
        self.malicious = malicious_clients(experiment, self._assignments(0).shards)
        weights = client_weights(experiment, partition.sizes)
        self._adversary = self._enlist(clients, weights)
        self._local_updates = LocalUpdates(
            experiment,
            cohort,
            clients,
            first_model=self._first_model,
            first_rounds=first_rounds or FirstRoundCache(0),
            adversary=self._adversary,
        )
        self._helped = None
        if experiment.helpers is not None:
            attackers = () if self._adversary is None else self.malicious
            self._helped = Helped(experiment, experiment.helpers, self.digest[:16], attackers)
        self._open = (
            Sharded(experiment, self.digest[:16], self._assignments, weights, workers, plan)
            if experiment.sharded
            else Unsharded(self._assignments, weights)
        )
        self._root = RootUpdates.of(experiment, cohort, self.data.train)
        self._server_step = ServerStep(
            experiment.estimator,
            optimizer=experiment.server,
            tensors=plan.sizes,
            trained=plan.trained,
            seed=seed,
        )
        self._evaluator = Evaluator(module, self.device, workers=workers, loss=loss, metric=experiment.metric)
        attackers = () if self._adversary is None else self.malicious
        self._record = Recorder(experiment, self._assignments, attackers, weights)
        self.header = header(
            experiment,
            name=name or self.digest[:8],
            arm=arm or {},
            device=self.device,
            dimension=plan.coordinates,
            malicious=self.malicious,
            partition=partition,
            labeled=loss.labeled(data),
            data=data.sha256,
            shards=self._assignments(0).shards,
        )

    def start(self) -> SimulationState:
        """Return the state before the first round."""
        momentum = None
        if self.experiment.client_momentum is not None:
            momentum = MomentumState()
        return SimulationState(0, self._first_model, momentum=momentum, buffers=self._buffers.first(self._first_model))

    def model(self, state: SimulationState) -> nn.Module:
        """Return the model of a state, on the CPU and ready to predict."""
        model = copy.deepcopy(self._module)
        load(model, self.evaluated(state).cpu())
        return model.eval()

    def evaluated(self, state: SimulationState) -> Tensor:
        """Return the vector of the model that is evaluated in a state."""
        return self._buffers.evaluated(state.model, state.buffers)

    def success_against(self, before: Tensor, after: Tensor, round_: int) -> float | None:
        """Return what the trigger of a round reaches against models of another run: those before and after the round.

        A trigger that is learned is learned against the former, as in a run. None for untargeted attacks.
        """
        goal = self._local_updates.goal_against(before.to(self.device), self._assignments(round_).shards, round_)
        success = reached(goal, self._evaluator, after.to(self.device))
        return None if success is None else success.others

    def rounds(self, state: SimulationState | None = None) -> Iterator[tuple[SimulationState, RoundRecord]]:
        """Yield each round's record with the state after it, from the given state or from the start."""
        state = state or self.start()
        while not self.ended(state):
            state, record = self.step(state)
            yield state, record

    def ended(self, state: SimulationState) -> bool:
        """Return whether a run ends with this state: after its last round, or stopped early."""
        return state.round >= self.experiment.rounds or bool(state.patience.ended)

    def step(self, state: SimulationState) -> tuple[SimulationState, RoundRecord]:
        """Run one round; the same state always gives the same result."""
        watch = Stopwatch(self.device)
        assignment = self._assignments(state.round)
        updates, momentum = self._local_updates(state, assignment.shards, watch)
        dropped = self._draw_dropouts(state.round, self._assignments.clients(state.round))
        with watch("sum"):
            sent = self._buffers.sent(updates)
            opened = (
                self._open(sent, state.model, state.round, dropped)
                if self._helped is None
                else self._helped(sent, state.model, state.round, dropped, state.memory)
            )
        watch.add("sum", -opened.protect)
        watch.add("protect", opened.protect)
        buffers = self._buffers.kept(state.buffers, updates, self._assignments.clients(state.round))
        del sent, updates
        root = None if self._root is None else self._root(state)[: self._buffers.plan.coordinates]
        it = self.experiment
        with watch("estimate"), own_code(estimator=it.estimator, server_optimizer=it.server_optimizer):
            result = self._estimated(opened, state, root)
            moved = None if result.step is None else torch.as_tensor(result.step).to(self.device)
            model = state.model if moved is None else self._buffers.moved(state.model, moved)
        with watch("evaluate"), own_code(model=it.model, loss=it.loss):
            shown = self._buffers.evaluated(model, buffers)
            score = self._evaluator.score(shown, self.data.test)
            success = None if self._adversary is None else self._adversary.success(self._evaluator, shown, state.round)
        stopping = self.experiment.early_stopping
        after = SimulationState(
            state.round + 1,
            model,
            result.state,
            momentum,
            (*state.unopened, self._unopened(opened, assignment)),
            state.ledger if opened.audit is None else state.ledger.charge(opened.audit.privacy_costs),
            state.patience if stopping is None else stopping(state.patience, score, state.round),
            buffers,
            opened.memory or state.memory,
        )
        return after, self._record(
            after,
            opened=opened,
            result=result,
            moved=moved,
            score=score,
            success=success,
            seconds=watch.read(),
        )

    def _estimated(self, opened: OpenedRows, state: SimulationState, root: Tensor | None) -> StepResult:
        """Return the server's step; with helpers, from the estimate that the judge has made."""
        if self._helped is not None:
            return self._server_step.from_estimate(
                opened.estimate, state.step, round_=state.round, skipped=opened.skipped
            )
        assignment = self._assignments(state.round)
        names = [assignment.name(shard) for shard in opened.shards]
        return self._server_step(
            opened.matrix, state.step, round_=state.round, weights=opened.weights, names=names, root=root
        )

    def _unopened(self, opened: OpenedRows, assignment: Assignment) -> Unopened:
        if self._helped is not None:
            return unsummed(opened, self.experiment.clients)
        return unopened(opened, assignment)

    def _enlist(self, clients: Sequence[ClientData], weights: ClientWeights | None) -> Adversary | None:
        it = self.experiment
        if it.attack is None:
            return None
        return Adversary(
            it.attack,
            self.malicious,
            [clients[client] for client in self.malicious],
            data=self.data,
            training=it.training,
            estimator=it.estimator,
            weights=None if weights is None else weights.by_client,
            seed=it.seed,
        )

    def _draw_dropouts(self, round_: int, clients: list[int]) -> dict[int, str]:
        """Draw which of the clients of this round drop out."""
        if not self.experiment.client_dropout:
            return {}
        draws = stream(self.experiment.seed, "dropout", round_).random(self.experiment.clients)
        return {client: "dropped out" for client in clients if draws[client] < self.experiment.client_dropout}
