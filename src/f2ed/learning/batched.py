"""Train many clients at once: one matrix of weights, one gradient call and one optimiser's step for all of them."""

import torch
from torch import Tensor

from f2ed.learning.gradients import Gradients
from f2ed.learning.optimiser import begin, step
from f2ed.learning.schedule import Schedule

__all__ = ["train_batched"]


@torch.no_grad()
def train_batched(start: Tensor, trained: int, schedule: Schedule, out: Tensor, gradients: Gradients) -> None:
    """Train the schedule's clients and write their updates into the rows of `out`.

    Buffers do not change in models that can be trained so; their part of an update is zero.
    """
    buffers, training = start[trained:], schedule.training
    begun = torch.stack([(start if job.start is None else job.start)[:trained] for job in schedule.jobs])
    weights = begun.clone()
    state = begin(training, weights)
    pull, mask = _pull(schedule, trained), _mask(schedule, trained)
    for at, active in enumerate(schedule.active):
        now = weights[:active]
        images = schedule.pool[schedule.index[at, :active]]
        slope = gradients(now, buffers, images, schedule.labels[at, :active], schedule.shares[at, :active])
        if pull is not None:
            slope.add_((now - pull[1][:active]) * pull[0][:active])
        step(training, now, slope, tuple(part[:active] for part in state))
        if mask is not None:
            torch.where(mask[:active], now, begun[:active], out=now)
    rows = torch.tensor(schedule.places, device=out.device)
    out[rows, :trained] = weights.sub_(begun)
    out[rows, trained:] = 0


def _pull(schedule: Schedule, trained: int) -> tuple[Tensor, Tensor] | None:
    """Return the strengths `[n, 1]` and centres `[n, t]`, if the clients are pulled."""
    pulls = [job.pull for job in schedule.jobs if job.pull is not None]
    if not pulls:
        return None
    centres = torch.stack([pull.centre[:trained] for pull in pulls])
    return centres.new_tensor([[pull.strength] for pull in pulls]), centres


def _mask(schedule: Schedule, trained: int) -> Tensor | None:
    masks = [job.mask[:trained] for job in schedule.jobs if job.mask is not None]
    return torch.stack(masks) if masks else None
