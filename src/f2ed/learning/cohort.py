"""Train all clients of a round by the fastest path for the model and the device."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from f2ed.core.threads import cores
from f2ed.learning.client import LocalTrainer, TrainingJob, TrainingKey
from f2ed.learning.datasets.base import Notify, quiet
from f2ed.learning.fast.batch_plan import BatchPlan, plan_batches
from f2ed.learning.fast.batched import Recordings, train_batched, train_in_turn
from f2ed.learning.fast.convolutions import Convolutions, OneByOne
from f2ed.learning.fast.gradients import Gradients, by_vmap, one_by_one
from f2ed.learning.fast.probe import disagreement, has_convolutions, is_stochastic
from f2ed.learning.fast.stack import stack_gradients
from f2ed.learning.fast.stacked import Layers, by_stacking
from f2ed.learning.losses import CROSS_ENTROPY, CrossEntropy, Loss
from f2ed.learning.threads import run_in_threads
from f2ed.learning.vector import layout

__all__ = ["Cohort"]

# So many clients at once that their weights and gradients fit into a core's share of the cache.
_COORDINATES_AT_ONCE = 1 << 20
# With this many weights a few clients' convolutions keep a GPU busy, and batching clients is slower.
_FILLS_A_GPU = 1 << 20
# So many weights of stacked clients at once fill a GPU; with more, memory is all that grows.
_WEIGHTS_AT_ONCE = 300_000_000
# Recorded steps to keep: a learning rate that changes over the rounds needs new ones.
_MOST_RECORDINGS = 16


class Cohort:
    """A model ready to train many clients, each from the same weights.

    Plain stacks of layers with cross-entropy use hand-written gradients: on a GPU all clients at once, on a CPU in
    threads, in groups or, with convolutions, one by one. Other models of convolutions, group normalization and dense
    layers are stacked on a GPU: one pass for the images of many clients. Everything else uses `vmap`, except
    convolutional models on a CPU and models that `vmap` rejects, which are trained client by client in threads; wide
    convolutional models that cannot be stacked are trained a few clients at a time, each on its own stream. A path
    whose gradients differ from the reference is not used; `path` and `notify` report what was chosen and why.
    Everything is computed in full float32, even where a GPU defaults to less, unless the training settings allow TF32
    or bfloat16.

    An update depends only on the seed, the round, the client's number and its job: not on which other clients train,
    nor on the number of workers. On a GPU this holds up to rounding: its libraries choose kernels by the size of the
    whole computation.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        loss: Loss = CROSS_ENTROPY,
        device: str | torch.device = "cpu",
        workers: int | None = None,
        notify: Notify = quiet,
    ) -> None:
        self.device = torch.device(device)
        self.model = copy.deepcopy(model).to(self.device).train()
        self.layout = layout(self.model)
        self.loss = loss
        self.workers = workers or (cores() if self.device.type == "cpu" else 1)
        self.notify = notify
        self.path = ""
        self._gradients: list[Gradients] = []
        self._recordings: Recordings = {}
        self._locals: list[LocalTrainer] = []

    def __call__(self, start: Tensor, jobs: Sequence[TrainingJob], *, seed: int, round_: int) -> Tensor:
        """Return the updates `[n, d]` in the order of the jobs, on the training device."""
        out = torch.empty(len(jobs), self.layout.dimension, device=self.device)
        jobs = [job.pulled_to(start) for job in jobs]
        if jobs and not self.path:
            # Paths are compared in full precision, whatever they train in.
            with _precision(self.device, None):
                self._choose(start, jobs[0])
        if len(self._recordings) > _MOST_RECORDINGS:
            self._recordings.clear()
        wanted = jobs[0].training.precision if jobs else None
        if wanted == "bf16" and self.path == "by hand":
            wanted = "tf32"  # Hand-written gradients are of small models, which have nothing to gain from bfloat16.
        with _precision(self.device, wanted):
            if self._locals:
                self._train_alone(start, jobs, out, seed, round_)
            else:
                for plan in plan_batches(jobs, seed, round_):
                    self._train_together(start, plan, out)
        return out

    def _choose(self, start: Tensor, job: TrainingJob) -> None:
        """Choose the path, and create what each worker needs for it."""
        on_cpu, reference = self.device.type == "cpu", LocalTrainer(self.model, loss=self.loss)
        if is_stochastic(reference, start, job.data):
            # Threads and vmap would draw in another order.
            self.path, self._locals = "one by one", [reference]
            self.notify("the model draws random numbers during training: clients are trained one by one")
            return
        wrong = ""
        for path, gradients in self._candidates():
            reason = disagreement(gradients[0], reference, start, job.data)
            if reason is None:
                self.path, self._gradients = path, gradients
                if wrong:
                    self.notify(f"clients are trained by {path}: {wrong}")
                if path == "vmap" and self._fills_the_gpu():
                    # A model that vmap accepts does not branch on values, so a step can be recorded.
                    self.path, self._gradients = "in turn", [one_by_one(self.model, self.loss)]
                return
            wrong = f"{path} cannot be used for this model ({reason})"
        if wrong:
            self.notify(f"clients are trained one at a time by each worker: {wrong}")
        self.path = "workers"
        self._locals = [
            LocalTrainer(self.model, loss=self.loss, channels_last=on_cpu, seeded=False) for _ in range(self.workers)
        ]

    def _candidates(self) -> Iterator[tuple[str, list[Gradients]]]:
        """Yield the ways to train many clients at once, fastest first."""
        on_cpu = self.device.type == "cpu"
        convolutions = OneByOne if on_cpu else _for_a_gpu()
        if isinstance(self.loss, CrossEntropy):
            stacks = [stack for _ in range(self.workers) if (stack := stack_gradients(self.model, convolutions))]
            if stacks:
                yield "by hand", list[Gradients](stacks)
        layers = None if on_cpu or not has_convolutions(self.model) else _layers_for_a_gpu()
        if layers is not None:
            yield "stacked", [by_stacking(self.model, layers, self.loss)]
        if not (on_cpu and has_convolutions(self.model)):
            yield "vmap", [by_vmap(self.model, self.loss) for _ in range(self.workers)]

    def _fills_the_gpu(self) -> bool:
        """Return whether one client is enough to keep the GPU busy."""
        return self.device.type != "cpu" and has_convolutions(self.model) and self.layout.trained > _FILLS_A_GPU

    def _train_alone(self, start: Tensor, jobs: Sequence[TrainingJob], out: Tensor, seed: int, round_: int) -> None:
        """Train client by client, each worker with a copy of the model."""

        def train(place: int, job: TrainingJob, local: LocalTrainer) -> None:
            out[place] = local.train(start, job, TrainingKey(seed, round_, job.client, job.repeat))

        tasks = (partial(train, place, job) for place, job in enumerate(jobs))
        if self.device.type == "cpu":
            run_in_threads(tasks, self._locals)
            return
        for task in tasks:
            task(self._locals[0])

    def _train_together(self, start: Tensor, plan: BatchPlan, out: Tensor) -> None:
        trained = self.layout.trained
        if self.device.type == "cpu":
            chunk = max(1, min(_COORDINATES_AT_ONCE // trained, -(-plan.clients // self.workers)))
            if has_convolutions(self.model):
                chunk = 1  # Their activations fill the cache.
            parts = (plan.part(at, at + chunk) for at in range(0, plan.clients, chunk))
            run_in_threads((partial(train_batched, start, trained, part, out) for part in parts), self._gradients)
            return
        if self.path == "in turn":
            train_in_turn(start, trained, plan, out, self._gradients[0], self._recordings)
            return
        chunk, at = plan.clients, 0
        if self.path == "stacked":
            chunk = -(-chunk // -(-chunk * trained // _WEIGHTS_AT_ONCE))
        while at < plan.clients:
            try:
                part = plan.part(at, at + chunk)
                train_batched(start, trained, part, out, self._gradients[0], self._recordings)
            except torch.OutOfMemoryError:
                self._recordings.clear()
                if chunk == 1:
                    raise
                chunk = -(-chunk // 2)
                self.notify(f"the GPU's memory is too small for all clients at once: trying {chunk}")
            else:
                at += chunk


def _for_a_gpu() -> type[Convolutions] | None:
    """Return the convolutions for many clients at once on a GPU; None where torch was built without Triton."""
    try:
        from f2ed.learning.fast.triton_convolutions import TritonConvolutions  # noqa: PLC0415  Triton comes with torch's builds for GPUs only
    except ModuleNotFoundError:
        return None
    return TritonConvolutions


def _layers_for_a_gpu() -> type[Layers] | None:
    """Return the layers for many clients at once on a GPU; None where torch was built without Triton."""
    try:
        from f2ed.learning.fast.triton_layers import TritonLayers  # noqa: PLC0415  as above
    except ModuleNotFoundError:
        return None
    return TritonLayers


@contextmanager
def _precision(device: torch.device, wanted: Literal["tf32", "bf16"] | None) -> Iterator[None]:
    """Use this device and full float32, or less where it is wanted.

    TF32 is torch's default for convolutions; it changes updates by about a percent.
    """
    if device.type != "cuda":
        yield
        return
    allowed = wanted is not None
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    torch.backends.cudnn.allow_tf32 = allowed
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    try:
        # Casts that are kept would outlive a recorded step.
        lower = torch.autocast("cuda", torch.bfloat16, enabled=wanted == "bf16", cache_enabled=False)
        with torch.cuda.device(device), lower:
            yield
    finally:
        torch.backends.cudnn.allow_tf32 = before[0]
        torch.set_float32_matmul_precision(before[1])
