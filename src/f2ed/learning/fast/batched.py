"""Train many clients at once: one weight matrix, one gradient call and one optimizer step for all of them."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

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
_WORTH_SAVING = 10
# So many clients of a wide model train at the same time, each on a stream of its own.
_LANES = 8

Recordings = dict[tuple[object, ...], Any]
"""Steps recorded on a GPU, with the memory that they work in, by what they depend on; kept for later rounds."""


@torch.no_grad()
def train_batched(
    start: Tensor,
    trained: int,
    plan: BatchPlan,
    out: Tensor,
    gradients: Gradients,
    recordings: Recordings | None = None,
) -> None:
    """Train the plan's clients and write their updates into the rows of `out`.

    Buffers do not change in models that can be trained this way; their part of an update is zero. On a GPU steps are
    recorded once and replayed, which saves kernel launches: for all clients, for three quarters of them and so on, so
    that few clients with more data than others do not keep all busy.
    """
    initial = _initial(start, trained, plan)
    group = _group(plan, start[trained:], initial, gradients, recordings)
    levels = _levels(plan.active) if _records(start) else []
    rows = torch.tensor(plan.places, device=out.device)
    out[rows, trained:] = 0
    left = plan.clients

    def finish(first: int) -> None:
        """Write the updates of clients that have no more batches; what replayed steps do to their weights is lost."""
        out[rows[first:left], :trained] = group.training.weights[first:left] - initial[first:left]

    for at, active in enumerate(plan.active):
        if active < left:
            finish(active)
            left = active
        level = min((size for size in levels if size >= active), default=None)
        if level is None:
            images = _pick(plan, plan.index[at, :active])
            group.training.step(images, plan.labels[at, :active], plan.shares[at, :active])
        else:
            group.recording(plan, level).step(plan, at)
    finish(0)


@torch.no_grad()
def train_in_turn(
    start: Tensor, trained: int, plan: BatchPlan, out: Tensor, gradients: Gradients, recordings: Recordings
) -> None:
    """Train the plan's clients on a GPU a few at a time, for models of which few clients keep it busy.

    Each of a few streams trains client after client by one recorded step, which is kept in `recordings`. Clients with
    a proximal term or a mask, which few attackers have, record their own.
    """
    lanes: list[_Recording] = recordings.setdefault(("lane", *_kind(plan)), [])
    alone = [at for at, job in enumerate(plan.jobs) if job.proximal is not None or job.mask is not None]
    for at in alone:
        train_batched(start, trained, plan.part(at, at + 1), out, gradients)
    together = [at for at in range(plan.clients) if at not in alone]
    while len(lanes) < min(_LANES, len(together)):
        mine = plan.part(0, 1)
        try:
            training = _Training(mine, start[trained:].clone(), _initial(start, trained, mine), gradients)
            lanes.append(_Recording(training, mine, 1))
        except torch.OutOfMemoryError:
            if not lanes:
                raise
            break
    queues: list[list[int]] = [[] for _ in lanes]
    loads = [0] * len(lanes)
    for at in together:
        # The plan starts with the clients that have most to do, so the least loaded stream gets the next one.
        lane = loads.index(min(loads))
        queues[lane].append(at)
        loads[lane] += sum(active > at for active in plan.active)
    running = [
        _train_queue(recording, queue, start, trained, plan, out)
        for recording, queue in zip(lanes, queues, strict=True)
    ]
    for recording in lanes:
        recording.begin()
    while running:
        running = [lane for lane in running if next(lane, None) is not None]
    for recording in lanes:
        recording.end()


def _train_queue(
    recording: "_Recording", queue: list[int], start: Tensor, trained: int, plan: BatchPlan, out: Tensor
) -> Iterator[int]:
    """Train these clients one after another; yield after each step, so that other streams get theirs in between."""
    weights = recording.training.weights
    for at in queue:
        mine = plan.part(at, at + 1)
        with recording.on_its_stream():
            initial = _initial(start, trained, mine)
            recording.training.restart(initial, start[trained:])
        for number in range(len(mine.active)):
            with recording.on_its_stream():
                recording.step(mine, number)
            yield at
        with recording.on_its_stream():
            row = out[mine.places[0]]
            torch.sub(weights[0], initial[0], out=row[:trained])
            row[trained:] = 0


def _kind(plan: BatchPlan) -> tuple[object, ...]:
    """Return what a recorded step depends on, besides the model."""
    return *msgspec.structs.astuple(plan.training), plan.pool.shape[1:], plan.labels.shape[2:]


def _records(tensor: Tensor) -> bool:
    """Return whether steps can be recorded where this tensor is."""
    return tensor.is_cuda


def _levels(active: tuple[int, ...]) -> list[int]:
    """Return for how many clients steps are worth recording: all, then three quarters and so on where that saves work.

    What is saved is counted in steps of the size above.
    """
    if len(active) < _WORTH_RECORDING:
        return []
    found, size = [active[0]], active[0]
    while size > 1:
        size = min(size - 1, -(-size * 3 // 4))
        fewer = sum(k <= size for k in active)
        if fewer * (found[-1] - size) >= _WORTH_SAVING * found[-1]:
            found.append(size)
    return found


def _group(
    plan: BatchPlan, buffers: Tensor, initial: Tensor, gradients: Gradients, recordings: Recordings | None
) -> "_Group":
    """Return the state of the plan's clients, in memory that earlier recordings use where there are any."""
    alone = recordings is None or any(job.proximal is not None or job.mask is not None for job in plan.jobs)
    if recordings is None or alone:
        return _Group(_Training(plan, buffers, initial, gradients))
    kind = "group", plan.clients, *_kind(plan)
    if kind not in recordings:
        recordings[kind] = _Group(_Training(plan, buffers.clone(), initial, gradients))
    else:
        recordings[kind].training.restart(initial, buffers)
    group: _Group = recordings[kind]
    return group


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


class _Group:
    """Clients that train together, and the steps recorded for some or all of them."""

    def __init__(self, training: _Training) -> None:
        self.training = training
        self._recorded: dict[int, _Recording] = {}

    def recording(self, plan: BatchPlan, clients: int) -> "_Recording":
        """Return the recorded step of the first clients; all of a group work in the same memory, one at a time."""
        if clients not in self._recorded:
            pool = next((each.graph.pool() for each in self._recorded.values()), None)
            self._recorded[clients] = _Recording(self.training, plan, clients, pool)
        return self._recorded[clients]


class _Recording:
    """A CUDA graph of one step of the first clients, to be replayed with other batches."""

    def __init__(self, training: _Training, plan: BatchPlan, clients: int, pool: Any = None) -> None:
        self.training = training
        batch = plan.index[0, :clients], plan.labels[0, :clients], plan.shares[0, :clients]
        self._batch = _pick(plan, batch[0]), batch[1].clone(), batch[2].clone()
        # Libraries keep scratch memory by stream, so graphs that run at the same time need streams of their own.
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch has no annotation for it
        changing = (training.weights, *training.state)
        before = [part.clone() for part in changing]
        # PyTorch requires a few warm-up runs on a side stream before a recording.
        self.begin()
        with self.on_its_stream():
            for _ in range(3):
                training.step(*self._batch)
        self.end()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool, stream=self._stream):
            training.step(*self._batch)
        for part, value in zip(changing, before, strict=True):
            part.copy_(value)
        # What the warm-up used is of no use to the recording, which has memory of its own: as much again.
        del before
        torch.cuda.empty_cache()

    def begin(self) -> None:
        """Let the recording's stream wait for what was launched before."""
        self._stream.wait_stream(torch.cuda.current_stream())

    def end(self) -> None:
        """Let what is launched next wait for the recording's stream."""
        torch.cuda.current_stream().wait_stream(self._stream)

    def on_its_stream(self) -> AbstractContextManager[object]:
        """Launch on the recording's own stream instead of the current one."""
        return torch.cuda.stream(self._stream)

    def step(self, plan: BatchPlan, at: int) -> None:
        """Run one step of the plan, on the current stream."""
        images, labels, shares = self._batch
        images.copy_(_pick(plan, plan.index[at, : len(images)]))
        labels.copy_(plan.labels[at, : len(images)])
        shares.copy_(plan.shares[at, : len(images)])
        self.graph.replay()


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
