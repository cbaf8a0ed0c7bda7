"""Training for attacks: what `MaliciousClients.train` calls, done by the cohort."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from f2ed.attacks import NO_OVERRIDES, Examples, ProximalTerm, TrainingOverrides
from f2ed.core.arrays import Array
from f2ed.learning.client import ClientData, TrainingJob
from f2ed.learning.cohort import Cohort
from f2ed.learning.optimizer import Training

__all__ = ["MaliciousTraining", "honest_settings"]


def honest_settings(training: Training) -> TrainingOverrides:
    """Return the honest clients' settings as attacks see them."""
    return TrainingOverrides(
        training.local_epochs,
        training.lr,
        training.momentum,
        training.weight_decay,
        training.batch_size,
        training.optimizer,
    )


@dataclass(eq=False)
class MaliciousTraining:
    """Trains the malicious clients of one round, as often as the attack asks; make a new one each round.

    The first call uses the same batches as an honest client of that number would; each later call draws its own.
    """

    cohort: Cohort
    model: Tensor
    clients: Sequence[int]
    training: Training
    seed: int
    round: int

    def __post_init__(self) -> None:
        """Start counting calls."""
        self._repeats = count()

    def __call__(
        self,
        data: Sequence[Examples],
        *,
        overrides: TrainingOverrides = NO_OVERRIDES,
        start: Array | None = None,
        proximal: ProximalTerm | None = None,
        mask: Array | None = None,
    ) -> Tensor:
        """Train each client on its own data; return the updates, `[m, d]`, on the training device."""
        training, repeat = _with_overrides(self.training, overrides), next(self._repeats)
        jobs = [
            TrainingJob(client, mine, training, repeat=repeat)
            for client, mine in zip(self.clients, self._in_one_pool(data), strict=True)
        ]
        if start is not None:
            jobs = [replace(job, start=row) for job, row in zip(jobs, self._tensor(start), strict=True)]
        if proximal is not None:
            centers = self._tensor(proximal.center).expand(len(jobs), -1)
            jobs = [
                replace(job, proximal=ProximalTerm(proximal.strength, c)) for job, c in zip(jobs, centers, strict=True)
            ]
        if mask is not None:
            masks = torch.as_tensor(mask, device=self.model.device).bool()
            jobs = [replace(job, mask=row) for job, row in zip(jobs, masks, strict=True)]
        return self.cohort(self.model, jobs, seed=self.seed, round_=self.round)

    def slopes(self, images: Array, labels: Array, *, model: Array | None = None) -> Tensor:
        """Return the gradient of the summed loss with respect to each image, in evaluation mode."""
        weights = self.cohort.layout.views(self.model if model is None else self._tensor(model))
        shown = _as_trained(images, self.model.device).detach().requires_grad_()
        wanted = _as_trained(labels, self.model.device)
        with torch.enable_grad():
            loss = self.cohort.loss(torch.func.functional_call(self._inspected, weights, (shown,)), wanted)
            (slope,) = torch.autograd.grad(loss * len(wanted), shown)
        return slope

    @cached_property
    def _inspected(self) -> nn.Module:
        return copy.deepcopy(self.cohort.model).eval()

    def _in_one_pool(self, data: Sequence[Examples]) -> list[ClientData]:
        """Put all images into one pool, so that clients can be trained together; shared images go in once."""
        pools: dict[int, tuple[int, Tensor]] = {}
        end = 0
        for images, _ in data:
            if id(images) not in pools:
                pools[id(images)] = end, _as_trained(images, self.model.device)
                end += len(images)
        pool = torch.cat([part for _, part in pools.values()])
        return [
            ClientData(
                pool,
                torch.arange(len(labels), device=pool.device) + pools[id(images)][0],
                _as_trained(labels, pool.device),
            )
            for images, labels in data
        ]

    def _tensor(self, array: Array) -> Tensor:
        return torch.as_tensor(array, dtype=torch.float32, device=self.model.device)


def _as_trained(given: Array, device: torch.device) -> Tensor:
    """Return samples or targets in the types of training; tokens and classes stay integers."""
    found = torch.as_tensor(given, device=device)
    return found.float() if found.is_floating_point() else found.long()


def _with_overrides(training: Training, overrides: TrainingOverrides) -> Training:
    """Return the honest settings with the overrides applied; a momentum implies SGD."""
    given = {
        "local_epochs": overrides.epochs,
        "lr": overrides.lr,
        "momentum": overrides.momentum,
        "weight_decay": overrides.weight_decay,
        "batch_size": overrides.batch_size,
        "optimizer": overrides.optimizer or ("sgd" if overrides.momentum else None),
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(training, **changes)
