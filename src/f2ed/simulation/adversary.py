"""The malicious clients of a run: what they train on, what they see and what they send."""

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from f2ed.attacks import AnyAttack, AttackerView, EvaluationData, Examples, Goal, MaliciousClients, Palette, Success
from f2ed.core.arrays import Array
from f2ed.core.randomness import stream
from f2ed.estimators import AnyEstimator
from f2ed.learning import ClientData, Cohort, Data, Evaluator, MaliciousTraining, Training, honest_settings
from f2ed.protocol.sharding import ClientId

__all__ = ["Adversary", "Shards", "reached"]

Shards = tuple[tuple[ClientId, ...], ...]


class Adversary:
    """An attack with the clients, data and training at its disposal; nothing changes but the trigger of a round."""

    def __init__(
        self,
        attack: AnyAttack,
        clients: tuple[ClientId, ...],
        own: Sequence[ClientData],
        *,
        data: Data,
        training: Training,
        estimator: AnyEstimator,
        weights: Mapping[ClientId, int] | None,
        seed: int,
    ) -> None:
        self.attack = attack
        self.clients = clients
        self._training = training
        self._estimator = estimator
        self._weights = weights
        self._seed = seed
        self._classes = data.classes
        self._palette = Palette(data.black, data.white)
        self._data = tuple(Examples(mine.samples.images, mine.labels) for mine in own)
        test = Examples(data.test.images, data.test.labels)
        self._learned: dict[int, Goal | None] = {}
        """The goal of the latest round, if it has one of its own; `among` shares it."""
        self.goal = attack.goal(EvaluationData(test, data.classes, self._palette, stream(seed, "goal")))
        """At the start of the run; None for an untargeted attack."""

    def among(self, everyone: Collection[ClientId]) -> "Adversary | None":
        """Return the adversary with those of its clients that take part in a round; None if none does."""
        present = [at for at, client in enumerate(self.clients) if client in everyone]
        if len(present) == len(self.clients):
            return self
        if not present:
            return None
        fewer = copy.copy(self)
        fewer.clients = tuple(self.clients[at] for at in present)
        fewer._data = tuple(self._data[at] for at in present)  # noqa: SLF001  of the same class
        return fewer

    def train(self, cohort: Cohort, model: Tensor, shards: Shards, round_: int) -> Tensor:
        """Train the malicious clients the way the attack does; return their updates, [m, d]."""
        clients = self._crew(cohort, model, shards, round_)
        goal = self.attack.learn(clients)
        self._learned.clear()
        self._learned[round_] = goal
        clients = replace(clients, goal=goal)
        return torch.as_tensor(self.attack.train(clients))

    def goal_against(self, cohort: Cohort, model: Tensor, shards: Shards, round_: int) -> Goal | None:
        """Return the goal that they would have in a round against another model; nothing changes."""
        if self.attack.trains_honestly:  # In a run such an attack learns nothing, either.
            return self.goal
        return self.attack.learn(self._crew(cohort, model, shards, round_))

    def _crew(self, cohort: Cohort, model: Tensor, shards: Shards, round_: int) -> MaliciousClients:
        training = self._training.at(round_)
        own = MaliciousTraining(cohort, model, self.clients, training, self._seed, round_)
        return MaliciousClients(
            data=self._data,
            train=own,
            model=model,
            honest=honest_settings(training),
            shards=shards,
            malicious=self.clients,
            classes=self._classes,
            palette=self._palette,
            goal=self.goal,
            round=round_,
            rng=stream(self._seed, "crew", round_),
            tensors=cohort.layout.sizes,
            slopes=own.slopes,
        )

    def send(
        self,
        own: Tensor,
        benign: Tensor,
        *,
        model: Tensor,
        shards: Shards,
        tensors: tuple[int, ...],
        round_: int,
        previous: Array | None = None,
    ) -> Tensor:
        """Return what they send, [m, d]; only an attack with full knowledge is shown the benign updates."""
        view = AttackerView(
            own=own,
            benign=benign if self.attack.knowledge == "full" else None,
            model=model,
            estimator=self._estimator,
            shards=shards,
            malicious=self.clients,
            tensors=tensors,
            round=round_,
            rng=stream(self._seed, "attack", round_),
            weights=self._weights,
            # Where buffers stay with the clients, rows are shorter than updates, and the last estimate does not fit.
            previous=None if previous is None or len(previous) != len(model) else torch.as_tensor(previous).to(own),
        )
        return torch.as_tensor(self.attack(view))

    def success(self, evaluator: Evaluator, model: Tensor, round_: int) -> Success | None:
        """Return the success of a targeted attack against the model after a round; None for untargeted attacks."""
        return reached(self._learned.get(round_, self.goal), evaluator, model)


def reached(goal: Goal | None, evaluator: Evaluator, model: Tensor) -> Success | None:
    """Return how far a model does what a goal asks for; None without a goal."""
    return None if goal is None else goal.success(evaluator.predictions(model, goal.images))
