"""What every client sends in a round: honest training, and an attack where there is one."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from f2ed.attacks import Goal
from f2ed.learning import ClientData, ClientMomentum, Cohort, MomentumState, TrainingJob
from f2ed.simulation.adversary import Adversary, Shards
from f2ed.simulation.checkpoint import SimulationState
from f2ed.simulation.config import Experiment
from f2ed.simulation.first_round_cache import FirstRoundCache
from f2ed.simulation.own_failures import own_code
from f2ed.simulation.stopwatch import Stopwatch

__all__ = ["LocalUpdates"]


class _Trained(NamedTuple):
    """The updates of some clients in this order, [k, d], and all clients' momentum afterwards."""

    clients: list[int]
    updates: Tensor
    momentum: MomentumState | None


class LocalUpdates:
    """The clients' side of a round up to the moment at which updates are encoded."""

    def __init__(
        self,
        experiment: Experiment,
        cohort: Cohort,
        data: Sequence[ClientData],
        *,
        first_model: Tensor,
        first_rounds: FirstRoundCache,
        adversary: Adversary | None,
    ) -> None:
        self._experiment = experiment
        self._cohort, self._data = cohort, data
        self._first_model, self._first_rounds = first_model, first_rounds
        self._adversary = adversary

    def __call__(self, state: SimulationState, shards: Shards, watch: Stopwatch) -> tuple[Tensor, MomentumState | None]:
        """Return what the clients of these shards send, [n, d] in ascending order, and all clients' momentum after."""
        everyone = sorted(client for members in shards for client in members)
        adversary = self._present(state.round, everyone)
        # Malicious clients that train as the others do are trained along with them.
        apart = () if adversary is None or adversary.attack.trains_honestly else adversary.clients
        it = self._experiment
        with watch("train"), own_code(model=it.model, loss=it.loss):
            trained = self._train(state, [client for client in everyone if client not in apart])
        if adversary is None:
            return trained.updates, trained.momentum
        with watch("attack"), own_code(attack=it.attack, model=it.model, loss=it.loss):
            own = adversary.train(self._cohort, state.model, shards, state.round) if apart else None
            return self._attack(adversary, trained, own, state, shards), trained.momentum

    def goal_against(self, model: Tensor, shards: Shards, round_: int) -> Goal | None:
        """Return the goal that the attack has in a round, with what it learns there against another model."""
        present = self._present(round_, [client for members in shards for client in members])
        if present is None:
            return None if self._adversary is None else self._adversary.goal
        return present.goal_against(self._cohort, model, shards, round_)

    def _present(self, round_: int, everyone: list[int]) -> Adversary | None:
        """Return the adversary with those of its clients that attack in a round; None if none does."""
        if self._adversary is None or round_ < self._experiment.attack_from:
            return None
        return self._adversary.among(everyone)

    def _train(self, state: SimulationState, clients: list[int]) -> _Trained:
        """Train these clients honestly, and apply client momentum."""
        updates = self._honest(state, clients)
        beta, momentum = self._experiment.client_momentum, state.momentum
        if beta is not None and momentum is not None:
            updates, momentum = ClientMomentum(beta)(updates, clients, momentum)
        return _Trained(clients, updates, momentum)

    def _honest(self, state: SimulationState, clients: list[int]) -> Tensor:
        """Return the updates of honest training, [k, d]; those of a first round may be known already."""
        it = self._experiment
        first = state.round == 0 and state.model is self._first_model
        learned = it.data, it.partition, it.model, it.start, it.loss, it.training
        settings = *learned, it.clients, it.seed, state.model.device, tuple(clients)
        if first and (known := self._first_rounds.get(settings)) is not None:
            return known
        training = it.training.at(state.round)
        jobs = [TrainingJob(client, self._data[client], training, self._own_start(state, client)) for client in clients]
        updates = self._cohort(state.model, jobs, seed=it.seed, round_=state.round)
        if first:
            self._first_rounds.put(settings, updates)
        return updates

    def _own_start(self, state: SimulationState, client: int) -> Tensor | None:
        """Return the model that a client with buffers of its own starts from; None for the global one."""
        if state.buffers is None:
            return None
        trained = self._cohort.layout.trained
        return torch.cat((state.model[:trained], state.buffers[client]))

    def _attack(
        self, adversary: Adversary, trained: _Trained, own: Tensor | None, state: SimulationState, shards: Shards
    ) -> Tensor:
        """Put what the malicious clients send into their rows."""
        everyone = sorted(client for members in shards for client in members)
        malicious = [row for row, client in enumerate(everyone) if client in adversary.clients]
        honest = [row for row, client in enumerate(everyone) if client not in adversary.clients]
        updates = trained.updates
        sent = adversary.send(
            updates[malicious] if own is None else own,
            updates[honest] if own is None else updates,
            model=state.model,
            shards=shards,
            tensors=self._cohort.layout.sizes,
            round_=state.round,
            previous=state.step.previous,
        )
        if own is not None:
            updates = updates.new_empty(len(everyone), updates.shape[1])
            updates[honest] = trained.updates
        updates[malicious] = sent.to(updates)
        return updates
