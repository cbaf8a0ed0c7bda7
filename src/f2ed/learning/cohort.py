"""Train all clients of a round, by whichever path is fastest for the model and the device."""

import copy
from collections.abc import Sequence
from functools import partial
from queue import SimpleQueue

import torch
from torch import Tensor, nn

from f2ed.learning.batched import train_batched
from f2ed.learning.datasets.base import Say, quiet
from f2ed.learning.gradients import Gradients, by_hand, by_vmap
from f2ed.learning.local import Job, Local, Turn
from f2ed.learning.probe import disagreement, draws_lots, has_convolutions
from f2ed.learning.schedule import Schedule, lay_out
from f2ed.learning.threads import cores, in_threads
from f2ed.learning.vector import layout

__all__ = ["Cohort"]

# As many clients at once as keep their weights and gradients in a core's share of the cache.
_COORDINATES_AT_ONCE = 1 << 20


class Cohort:
    """A model ready to train many clients, each from the same weights.

    On a GPU all clients train at once under `vmap`. On a CPU stacks of dense layers train in groups by
    batched matrix products, other models without convolutions under `vmap`, and convolutional ones
    client by client in threads. A model that `vmap` refuses, or for which it gives other gradients than
    the reference, is trained client by client; `path` and `say` tell what was chosen and why.

    An update depends on the seed, the round, the client's number and its job alone: not on which other
    clients train, nor on the number of workers.
    """

    def __init__(
        self, model: nn.Module, *, device: str | torch.device = "cpu", workers: int | None = None, say: Say = quiet
    ) -> None:
        self.device = torch.device(device)
        self.model = copy.deepcopy(model).to(self.device).train()
        self.layout = layout(self.model)
        self.workers = workers or (cores() if self.device.type == "cpu" else 1)
        self.say = say
        self.path = ""
        self._gradients: Gradients | None = None

    def __call__(self, start: Tensor, jobs: Sequence[Job], *, seed: int, round_: int) -> Tensor:
        """Return the updates `[n, d]` in the order of the jobs, on the training device."""
        out = torch.empty(len(jobs), self.layout.dimension, device=self.device)
        if jobs and not self.path:
            self._choose(start, jobs[0])
        alone = [place for place, job in enumerate(jobs) if job.hooks or not self._gradients]
        if self._gradients:
            together = [place for place, job in enumerate(jobs) if not job.hooks]
            for schedule in lay_out(jobs, together, seed, round_):
                self._train_together(self._gradients, start, schedule, out)
        self._train_alone(start, jobs, alone, out, seed, round_)
        return out

    def _choose(self, start: Tensor, job: Job) -> None:
        local = Local(self.model)
        local.load(start)
        if draws_lots(local, job.data):
            # Threads and vmap would draw in an order of their own.
            self.path = "one by one"
            self.say("the model draws random numbers as it trains: clients are trained one by one")
            return
        self.path = "workers"
        if self.device.type == "cpu" and has_convolutions(self.model):
            return
        path, gradients = ("dense", hand) if (hand := by_hand(self.model)) else ("vmap", by_vmap(self.model))
        if (wrong := disagreement(gradients, local, start, job.data)) is not None:
            self.say(f"clients are trained one by one, not all at once: vmap does not suit the model ({wrong})")
            return
        self.path, self._gradients = path, gradients

    def _train_together(self, gradients: Gradients, start: Tensor, schedule: Schedule, out: Tensor) -> None:
        trained = self.layout.trained
        if self.device.type == "cpu":
            chunk = max(1, min(_COORDINATES_AT_ONCE // trained, -(-schedule.clients // self.workers)))
            parts = (schedule.part(at, at + chunk) for at in range(0, schedule.clients, chunk))
            in_threads((partial(train_batched, gradients, start, trained, part, out) for part in parts), self.workers)
            return
        chunk, at = schedule.clients, 0
        while at < schedule.clients:
            try:
                train_batched(gradients, start, trained, schedule.part(at, at + chunk), out)
            except torch.OutOfMemoryError:
                if chunk == 1:
                    raise
                chunk = -(-chunk // 2)
                self.say(f"the GPU's memory is too small: {chunk} clients at once")
            else:
                at += chunk

    def _train_alone(
        self, start: Tensor, jobs: Sequence[Job], places: Sequence[int], out: Tensor, seed: int, round_: int
    ) -> None:
        """Train client by client; each worker has a model of its own, and one in the usual layout for hooks."""
        lots = self.path == "one by one"
        workers = min(1 if lots else self.workers, len(places))
        fast, plain = SimpleQueue[Local](), SimpleQueue[Local]()
        for _ in range(workers):
            fast.put(Local(self.model, channels_last=self.device.type == "cpu" and not lots, seeded=lots))
            plain.put(Local(self.model, seeded=lots))

        def train(place: int) -> None:
            job = jobs[place]
            free = plain if job.hooks else fast
            local = free.get()
            try:
                turn = Turn(seed, round_, job.client)
                out[place] = local.train(start, job.data, job.training, turn, job.hooks)
            finally:
                free.put(local)

        if workers and self.device.type == "cpu":
            in_threads((partial(train, place) for place in places), workers)
            return
        for place in places:
            train(place)
