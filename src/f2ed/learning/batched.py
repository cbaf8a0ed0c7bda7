"""Train many clients at once: one matrix of weights, one gradient call and one optimiser's step for all of them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from f2ed.learning.gradients import Gradients
from f2ed.learning.optimiser import begin, step
from f2ed.learning.schedule import Schedule
from f2ed.learning.stack import StackGradients

__all__ = ["train_batched"]

# Recording a step costs about five of them.
_WORTH_RECORDING = 20


@torch.no_grad()
def train_batched(start: Tensor, trained: int, schedule: Schedule, out: Tensor, gradients: Gradients) -> None:
    """Train the schedule's clients and write their updates into the rows of `out`.

    Buffers do not change in models that can be trained so; their part of an update is zero. On a GPU the
    steps of clients of equal length are recorded once and replayed, which spares the launches.
    """
    begun = torch.stack([(start if job.start is None else job.start)[:trained] for job in schedule.jobs])
    training = _Training(schedule, start[trained:], begun, gradients)
    if start.is_cuda and len(schedule.active) >= _WORTH_RECORDING and schedule.active[-1] == schedule.clients:
        _replay(training, schedule)
    else:
        for at, active in enumerate(schedule.active):
            training.step(schedule.index[at, :active], schedule.labels[at, :active], schedule.shares[at, :active])
    rows = torch.tensor(schedule.places, device=out.device)
    out[rows, :trained] = training.weights.sub_(begun)
    out[rows, trained:] = 0


class _Training:
    """The state of some clients' training."""

    def __init__(self, schedule: Schedule, buffers: Tensor, begun: Tensor, gradients: Gradients) -> None:
        self.settings, self.pool = schedule.training, schedule.pool
        self.buffers, self.begun, self.gradients = buffers, begun, gradients
        self.weights = begun.clone()
        self.state = begin(self.settings, self.weights)
        self.pull, self.mask = _pull(schedule, begun.shape[1]), _mask(schedule, begun.shape[1])
        settings = self.settings
        only_sgd = settings.optimiser == "sgd" and not settings.momentum and not settings.weight_decay
        self.plain = only_sgd and self.pull is None and self.mask is None

    def step(self, index: Tensor, labels: Tensor, shares: Tensor) -> None:
        """Move the first clients, as many as there are batches, one step."""
        active = len(index)
        now = self.weights[:active]
        # Whole rows are picked twice as fast by index_select as by indexing.
        images = self.pool.index_select(0, index.reshape(-1)).view(*index.shape, *self.pool.shape[1:])
        if self.plain and isinstance(self.gradients, StackGradients):
            self.gradients.descend(now, images, labels, shares * self.settings.lr)
            return
        slope = self.gradients(now, self.buffers, images, labels, shares)
        if self.pull is not None:
            slope.add_((now - self.pull.centres[:active]) * self.pull.strengths[:active])
        step(self.settings, now, slope, tuple(part[:active] for part in self.state))
        if self.mask is not None:
            torch.where(self.mask[:active], now, self.begun[:active], out=now)


def _replay(training: _Training, schedule: Schedule) -> None:
    """Run all steps by replaying a CUDA graph of one."""
    batch = schedule.index[0].clone(), schedule.labels[0].clone(), schedule.shares[0].clone()
    changing = (training.weights, *training.state)
    before = [part.clone() for part in changing]
    # PyTorch asks for a few runs on a stream of their own before a recording.
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch has no annotation for it
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            training.step(*batch)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        training.step(*batch)
    for part, value in zip(changing, before, strict=True):
        part.copy_(value)
    for at in range(len(schedule.active)):
        for static, source in zip(batch, (schedule.index, schedule.labels, schedule.shares), strict=True):
            static.copy_(source[at])
        graph.replay()


@dataclass(frozen=True, eq=False)
class _Pull:
    """The strengths `[n, 1]` and centres `[n, t]` of clients that are pulled."""

    strengths: Tensor
    centres: Tensor


def _pull(schedule: Schedule, trained: int) -> _Pull | None:
    pulls = [job.pull for job in schedule.jobs if job.pull is not None]
    if not pulls:
        return None
    centres = torch.stack([pull.centre[:trained] for pull in pulls])
    return _Pull(centres.new_tensor([[pull.strength] for pull in pulls]), centres)


def _mask(schedule: Schedule, trained: int) -> Tensor | None:
    masks = [job.mask[:trained] for job in schedule.jobs if job.mask is not None]
    return torch.stack(masks) if masks else None
