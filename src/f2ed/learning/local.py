"""Train one client: the reference that every faster path must equal."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from f2ed.errors import ConfigError
from f2ed.learning.datasets import Samples
from f2ed.learning.optimiser import Training, begin, step
from f2ed.learning.partition import Partition
from f2ed.learning.vector import bind, flatten, layout, load
from f2ed.randomness import stream

__all__ = ["ClientData", "Hooks", "Job", "Local", "Turn", "hand_out", "orders"]


class Turn(NamedTuple):
    """Whose turn in which round it is: the key of the batch order."""

    seed: int
    round: int
    client: int


@dataclass(frozen=True, eq=False)
class ClientData:
    """A client's samples: rows of a pool of images that many may share, and labels of its own.

    An attacker who changes labels keeps the pool; one who paints into images brings a pool of its own.
    """

    pool: Tensor
    rows: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        """Refuse a client without samples, or with labels for others."""
        if not len(self.rows):
            raise ConfigError("a client without samples cannot train; give it some or leave it out")
        if len(self.rows) != len(self.labels):
            raise ConfigError(f"a client has {len(self.rows)} images but {len(self.labels)} labels")

    @classmethod
    def of(cls, samples: Samples) -> "ClientData":
        """Return all of `samples` as one client's."""
        return cls(samples.images, torch.arange(len(samples), device=samples.labels.device), samples.labels)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def samples(self) -> Samples:
        """A copy of the client's images, with its labels."""
        return Samples(self.pool[self.rows], self.labels)


@dataclass(frozen=True, eq=False)
class Job:
    """One client's work in a round. Attackers may have settings of their own, and reach in with `hooks`."""

    client: int
    data: ClientData
    training: Training
    hooks: "Hooks | None" = None


@dataclass(frozen=True, eq=False)
class Hooks:
    """Where an attacker reaches into its own training; each gets what is about to be used and returns what is.

    `batch` sees images and labels (poison some), `gradient` the trained weights and their gradient
    (add that of a penalty, mask coordinates), `weights` the weights after a step (project them).
    """

    batch: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None
    gradient: Callable[[Tensor, Tensor], Tensor] | None = None
    weights: Callable[[Tensor], Tensor] | None = None


def hand_out(samples: Samples, partition: Partition) -> list[ClientData]:
    """Return each client's data as rows of the one pool; only row numbers and labels are copied."""
    device = samples.labels.device
    rows = [torch.from_numpy(mine).to(device) for mine in partition.rows]
    return [ClientData(samples.images, mine, samples.labels[mine]) for mine in rows]


def orders(turn: Turn, size: int, epochs: int) -> NDArray[np.int64]:
    """Return the order `[epochs, size]` in which a client's samples are taken, by seed, round, client and epoch."""
    return np.stack([stream(turn.seed, "batches", turn.round, turn.client, e).permutation(size) for e in range(epochs)])


class Local:
    """A copy of a model that trains one client after another, each from the weights it is given.

    With `channels_last` convolutions work on that memory layout, which is faster on a CPU and the same
    up to rounding; `Hooks` need the usual layout. A model that draws random numbers (dropout) is seeded
    by the turn unless `seeded` is off, which threads need: they share one generator.
    """

    def __init__(self, model: nn.Module, *, channels_last: bool = False, seeded: bool = True) -> None:
        self.model = copy.deepcopy(model).train()
        vector, self.slope = bind(self.model, channels_last=channels_last)
        self.weights = vector[: layout(model).trained]
        self.memory = torch.channels_last if channels_last else torch.contiguous_format
        self.seeded = seeded
        counts = [buffer for buffer in self.model.buffers() if not buffer.is_floating_point()]
        self._counts = [(buffer, buffer.clone()) for buffer in counts]

    def train(
        self, start: Tensor, data: ClientData, training: Training, turn: Turn, hooks: Hooks | None = None
    ) -> Tensor:
        """Return the client's update `[d]`: its weights (and buffers) after training, less those at the start."""
        if hooks is not None and self.memory is torch.channels_last:
            raise ConfigError("hooks see weights in the usual order: train without channels_last")
        hooks = hooks or Hooks()
        self.load(start)
        state = begin(training, self.weights)
        order = torch.from_numpy(orders(turn, len(data), training.local_epochs)).to(data.rows.device)
        with self._randomness(turn):
            for epoch in order:
                rows, labels = data.rows[epoch], data.labels[epoch]
                for at in range(0, len(data), training.batch):
                    batch = data.pool[rows[at : at + training.batch]], labels[at : at + training.batch]
                    self._step(*(hooks.batch(*batch) if hooks.batch else batch), training, state, hooks)
        return flatten(self.model) - start

    def load(self, start: Tensor) -> None:
        """Start from these weights, with counting buffers as the model came."""
        load(self.model, start)
        for buffer, value in self._counts:
            buffer.copy_(value)

    def loss_and_gradient(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss of a batch and its gradient; the gradient's memory is used again by the next call."""
        self.slope.zero_()
        if images.dim() == 4:
            images = images.contiguous(memory_format=self.memory)
        loss = cross_entropy(self.model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no annotation for it
        return loss.detach(), self.slope

    def _step(
        self, images: Tensor, labels: Tensor, training: Training, state: tuple[Tensor, ...], hooks: Hooks
    ) -> None:
        _, gradient = self.loss_and_gradient(images, labels)
        if hooks.gradient:
            gradient = hooks.gradient(self.weights, gradient)
        step(training, self.weights, gradient, state)
        if hooks.weights:
            self.weights.copy_(hooks.weights(self.weights))

    @contextmanager
    def _randomness(self, turn: Turn) -> Iterator[None]:
        if not self.seeded:
            yield
            return
        devices = [self.weights.device] if self.weights.is_cuda else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(stream(turn.seed, "draws", turn.round, turn.client).integers(2**63)))
            yield
