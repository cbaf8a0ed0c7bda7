"""Train many clients at once: one weight matrix, one gradient call and one optimizer step for all of them."""

from dataclasses import dataclass

import msgspec
import torch
from torch import Tensor

from f2ed.learning.fast.batch_plan import BatchPlan
from f2ed.learning.fast.gradients import Gradients
from f2ed.learning.fast.stack import StackGradients
from f2ed.learning.optimizer import begin, step

__all__ = ["Recordings", "train_batched", "train_in_turn"]

# Recording a step costs as much as about five steps.
_WORTH_RECORDING = 20

Recordings = dict[tuple[object, ...], "_Recording"]
"""Steps of one client, recorded on a GPU, by what they depend on."""


@torch.no_grad()
def train_batched(start: Tensor, trained: int, plan: BatchPlan, out: Tensor, gradients: Gradients) -> None:
    """Train the plan's clients and write their updates into the rows of `out`.

    Buffers do not change in models that can be trained this way; their part of an update is zero. On a GPU the
    steps of clients with equally many batches are recorded once and replayed, which saves kernel launches.
    """
    initial = _initial(start, trained, plan)
    training = _Training(plan, start[trained:], initial, gradients)
    if start.is_cuda and len(plan.active) >= _WORTH_RECORDING and plan.active[-1] == plan.clients:
        _Recording(training, plan).replay(plan)
    else:
        for at, active in enumerate(plan.active):
            images = _pick(plan, plan.index[at, :active])
            training.step(images, plan.labels[at, :active], plan.shares[at, :active])
    rows = torch.tensor(plan.places, device=out.device)
    out[rows, :trained] = training.weights.sub_(initial)
    out[rows, trained:] = 0


@torch.no_grad()
def train_in_turn(
    start: Tensor, trained: int, plan: BatchPlan, out: Tensor, gradients: Gradients, recordings: Recordings
) -> None:
    """Train the plan's clients on a GPU one after another, for models of which one client keeps it busy.

    All clients of a run replay the same recorded step, which is kept in `recordings`; those with a proximal term or a
    mask, which few attackers have, record their own.
    """
    for at in range(plan.clients):
        mine = plan.part(at, at + 1)
        (job,), (place,) = mine.jobs, mine.places
        if job.proximal is not None or job.mask is not None:
            train_batched(start, trained, mine, out, gradients)
            continue
        initial = _initial(start, trained, mine)
        kind = *msgspec.structs.astuple(mine.training), mine.pool.shape[1:]
        if kind not in recordings:
            recordings[kind] = _Recording(_Training(mine, start[trained:].clone(), initial, gradients), mine)
        recording = recordings[kind]
        recording.training.restart(initial, start[trained:])
        recording.replay(mine)
        torch.sub(recording.training.weights[0], initial[0], out=out[place, :trained])
        out[place, trained:] = 0


def _initial(start: Tensor, trained: int, plan: BatchPlan) -> Tensor:
    """Return the initial weights `[n, t]` of the clients."""
    return torch.stack([(start if job.start is None else job.start)[:trained] for job in plan.jobs])


class _Training:
    """The training state of some clients."""

    def __init__(self, plan: BatchPlan, buffers: Tensor, initial: Tensor, gradients: Gradients) -> None:
        self.settings = plan.training
        self.buffers, self.initial, self.gradients = buffers, initial, gradients
        self.weights = initial.clone()
        self.state = begin(self.settings, self.weights)
        self.proximal, self.mask = _proximal(plan, initial.shape[1]), _mask(plan, initial.shape[1])
        settings = self.settings
        only_sgd = settings.optimizer == "sgd" and not settings.momentum and not settings.weight_decay
        self.plain = only_sgd and self.proximal is None and self.mask is None

    def restart(self, initial: Tensor, buffers: Tensor) -> None:
        """Start over in the same memory, which a recorded step reads and writes."""
        self.weights.copy_(initial)
        self.buffers.copy_(buffers)
        for part in self.state:
            part.zero_()

    def step(self, images: Tensor, labels: Tensor, shares: Tensor) -> None:
        """Move the first clients, one per batch, by one step."""
        active = len(images)
        now = self.weights[:active]
        if self.plain and isinstance(self.gradients, StackGradients):
            self.gradients.descend(now, images, labels, shares * self.settings.lr)
            return
        slope = self.gradients(now, self.buffers, images, labels, shares)
        if self.proximal is not None:
            slope.add_((now - self.proximal.centers[:active]) * self.proximal.strengths[:active])
        step(self.settings, now, slope, tuple(part[:active] for part in self.state))
        if self.mask is not None:
            torch.where(self.mask[:active], now, self.initial[:active], out=now)


class _Recording:
    """A CUDA graph of one step, to be replayed with other batches."""

    def __init__(self, training: _Training, plan: BatchPlan) -> None:
        self.training = training
        self._batch = _pick(plan, plan.index[0]), plan.labels[0].clone(), plan.shares[0].clone()
        changing = (training.weights, *training.state)
        before = [part.clone() for part in changing]
        # PyTorch requires a few warm-up runs on a side stream before a recording.
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch has no annotation for it
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                training.step(*self._batch)
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            training.step(*self._batch)
        for part, value in zip(changing, before, strict=True):
            part.copy_(value)

    def replay(self, plan: BatchPlan) -> None:
        """Run all steps of clients with equally many batches."""
        images, labels, shares = self._batch
        for at in range(len(plan.active)):
            images.copy_(_pick(plan, plan.index[at]))
            labels.copy_(plan.labels[at])
            shares.copy_(plan.shares[at])
            self._graph.replay()


def _pick(plan: BatchPlan, index: Tensor) -> Tensor:
    """Return the pool's images at this index; `index_select` picks whole rows twice as fast as indexing."""
    return plan.pool.index_select(0, index.reshape(-1)).view(*index.shape, *plan.pool.shape[1:])


@dataclass(frozen=True, eq=False)
class _ProximalTerms:
    """The strengths `[n, 1]` and centers `[n, t]` of clients that are pulled."""

    strengths: Tensor
    centers: Tensor


def _proximal(plan: BatchPlan, trained: int) -> _ProximalTerms | None:
    terms = [job.proximal for job in plan.jobs if job.proximal is not None]
    if not terms:
        return None
    centers = torch.stack([term.center[:trained] for term in terms])
    return _ProximalTerms(centers.new_tensor([[term.strength] for term in terms]), centers)


def _mask(plan: BatchPlan, trained: int) -> Tensor | None:
    masks = [job.mask[:trained] for job in plan.jobs if job.mask is not None]
    return torch.stack(masks) if masks else None
