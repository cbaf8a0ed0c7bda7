"""The batches of many clients side by side: which samples each of them uses at each step."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec
import numpy as np
import torch
from torch import Tensor

from f2ed.learning.client import TrainingJob, TrainingKey, batch_order
from f2ed.learning.optimizer import Training

__all__ = ["BatchPlan", "plan_batches"]


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """The batches of clients with the same settings and the same pool of images, clients with most data first.

    `index` (rows of the pool), `labels` and `shares` are `[steps, n, batch]`. A short batch is padded with samples of
    share zero. At step s the first `active[s]` clients still train. `places` maps each client to its position in the
    list of jobs.
    """

    jobs: tuple[TrainingJob, ...]
    places: tuple[int, ...]
    index: Tensor
    labels: Tensor
    shares: Tensor
    active: tuple[int, ...]

    @property
    def training(self) -> Training:
        """The settings of all of them."""
        return self.jobs[0].training

    @property
    def pool(self) -> Tensor:
        """The images of all of them."""
        return self.jobs[0].data.pool

    @property
    def clients(self) -> int:
        """The number of clients."""
        return len(self.places)

    def part(self, first: int, last: int) -> "BatchPlan":
        """Return the plan of some clients alone; nothing is copied."""
        active = tuple(min(k, last) - first for k in self.active if k > first)
        cut = np.s_[: len(active), first:last]
        return BatchPlan(
            self.jobs[first:last],
            self.places[first:last],
            self.index[cut],
            self.labels[cut],
            self.shares[cut],
            active,
        )


def plan_batches(jobs: Sequence[TrainingJob], seed: int, round_: int) -> list[BatchPlan]:
    """Return one plan for each kind of job: settings, pool, and whether it has a proximal term or a mask."""

    def kind(place: int) -> tuple[object, ...]:
        job = jobs[place]
        return (
            id(job.data.pool),
            *map(str, msgspec.structs.astuple(job.training)),
            job.proximal is None,
            job.mask is None,
        )

    return [_plan(list(group), jobs, seed, round_) for _, group in groupby(sorted(range(len(jobs)), key=kind), kind)]


def _plan(places: list[int], jobs: Sequence[TrainingJob], seed: int, round_: int) -> BatchPlan:
    places.sort(key=lambda place: -len(jobs[place].data))
    mine = [jobs[place] for place in places]
    training, data = mine[0].training, [job.data for job in mine]
    device = data[0].rows.device
    steps = [-(-len(d) // training.batch_size) * training.local_epochs for d in data]
    order = np.zeros((steps[0], len(mine), training.batch_size), dtype=np.int64)
    shares = np.zeros(order.shape, dtype=np.float32)
    for at, job in enumerate(mine):
        key = TrainingKey(seed, round_, job.client, job.repeat)
        order[: steps[at], at], shares[: steps[at], at] = _batches(key, len(job.data), training)
    taken = torch.from_numpy(order).to(device)
    return BatchPlan(
        jobs=tuple(mine),
        places=tuple(places),
        index=_pick([d.rows for d in data], taken),
        labels=_pick([d.labels for d in data], taken),
        shares=torch.from_numpy(shares).to(device),
        active=tuple(int(n) for n in (np.asarray(steps)[None, :] > np.arange(steps[0])[:, None]).sum(1)),
    )


def _batches(key: TrainingKey, size: int, training: Training) -> tuple[np.ndarray, np.ndarray]:
    """Return one client's samples and shares, both `[steps, batch]`, in the order of the reference path."""
    short = -size % training.batch_size
    order = np.pad(batch_order(key, size, training.local_epochs), ((0, 0), (0, short)))
    share = np.full((len(order), size + short), 1 / training.batch_size, dtype=np.float32)
    if short:
        share[:, size - (training.batch_size - short) : size] = 1 / (training.batch_size - short)
        share[:, size:] = 0
    return order.reshape(-1, training.batch_size), share.reshape(-1, training.batch_size)


def _pick(values: list[Tensor], taken: Tensor) -> Tensor:
    """Return `values[client][taken[step, client, …]]` for all steps and clients."""
    padded = torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
    clients = torch.arange(len(values), device=taken.device)[None, :, None]
    return padded[clients, taken]
