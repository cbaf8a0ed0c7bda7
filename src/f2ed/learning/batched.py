"""Train many clients at once: one matrix of weights, one gradient call and one optimiser's step for all of them."""

import torch
from torch import Tensor

from f2ed.learning.gradients import Gradients
from f2ed.learning.optimiser import begin, step
from f2ed.learning.schedule import Schedule

__all__ = ["train_batched"]


def train_batched(gradients: Gradients, start: Tensor, trained: int, schedule: Schedule, out: Tensor) -> None:
    """Train the schedule's clients from `start` and write their updates into the rows of `out`.

    Buffers do not change in models that can be trained so; their part of an update is zero.
    """
    weights, buffers = start[:trained].repeat(schedule.clients, 1), start[trained:]
    state = begin(schedule.training, weights)
    for at, active in enumerate(schedule.active):
        now = weights[:active]
        images = schedule.pool[schedule.index[at, :active]]
        slope = gradients(now, buffers, images, schedule.labels[at, :active], schedule.shares[at, :active])
        step(schedule.training, now, slope, tuple(part[:active] for part in state))
    rows = torch.tensor(schedule.places, device=out.device)
    out[rows, :trained] = weights.sub_(start[:trained])
    out[rows, trained:] = 0
