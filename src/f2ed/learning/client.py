"""Train one client: the reference that every faster path must equal."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from f2ed.attacks import ProximalTerm
from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.learning.datasets import Samples
from f2ed.learning.losses import CROSS_ENTROPY, Loss
from f2ed.learning.optimizer import Training, begin, step
from f2ed.learning.partition import Partition
from f2ed.learning.vector import bind, flatten, layout, load, reorder

__all__ = ["ClientData", "LocalTrainer", "TrainingJob", "TrainingKey", "batch_order", "split_samples"]


_VIEWS = 1000
"""Of the clients' data, kept for the next round."""


class TrainingKey(NamedTuple):
    """Identifies one training: seed, round, client and repeat index. It keys the batch order and all random draws."""

    seed: int
    round: int
    client: int
    repeat: int = 0


@dataclass(frozen=True, eq=False)
class ClientData:
    """A client's samples: rows of a pool of images that clients may share, and the client's own labels.

    An attack that changes labels keeps the pool; one that changes images brings its own.
    """

    pool: Tensor
    rows: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        """Refuse a client without samples, or with more or fewer labels than images."""
        if not len(self.rows):
            raise ConfigError("a client without samples cannot train; give it some or leave it out")
        if len(self.rows) != len(self.labels):
            raise ConfigError(
                f"a client has {len(self.rows)} images but {len(self.labels)} labels; give one label per image"
            )

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(cls, samples: Samples) -> "ClientData":
        """Return all of `samples` as the data of one client."""
        return cls(samples.images, torch.arange(len(samples), device=samples.labels.device), samples.labels)

    @property
    def samples(self) -> Samples:
        """A copy of the client's images, with its labels."""
        return Samples(self.pool[self.rows], self.labels)


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """One client's training in a round. Attackers may override the settings, and more.

    `start` are weights other than the global ones; where `mask` `[d]` is false, a weight stays unchanged;
    `repeat` distinguishes several trainings of one client in one round.
    """

    client: int
    data: ClientData
    training: Training
    start: Tensor | None = None
    proximal: ProximalTerm | None = None
    mask: Tensor | None = None
    repeat: int = 0

    def pulled_to(self, model: Tensor) -> "TrainingJob":
        """Return the job with the proximal term of its settings, if these have one and the job has none of its own."""
        strength = self.training.proximal
        if strength is None or self.proximal is not None:
            return self
        return replace(self, proximal=ProximalTerm(strength, model))


class _Views(Sequence[ClientData]):
    """The clients' data, made when asked for: of many clients, a round needs a few."""

    def __init__(self, samples: Samples, partition: Partition) -> None:
        self._samples, self._rows = samples, partition.rows
        self._known: dict[int, ClientData] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, client: Any) -> Any:
        if isinstance(client, slice):
            return [self[each] for each in range(*client.indices(len(self)))]
        if client not in self._known:
            if len(self._known) >= _VIEWS:
                self._known.clear()
            rows = torch.from_numpy(self._rows[client]).to(self._samples.labels.device)
            self._known[client] = ClientData(self._samples.images, rows, self._samples.labels[rows])
        return self._known[client]


def split_samples(samples: Samples, partition: Partition) -> Sequence[ClientData]:
    """Return each client's data as rows of one shared pool; only row numbers and labels are copied, when asked for."""
    return _Views(samples, partition)


def batch_order(key: TrainingKey, size: int, epochs: int) -> NDArray[np.int64]:
    """Return the order `[epochs, size]` in which a client's samples are used, keyed by the training and the epoch."""
    return np.stack([stream(key[0], "batches", *key[1:], epoch).permutation(size) for epoch in range(epochs)])


class LocalTrainer:
    """A copy of a model that trains one client after another.

    With `channels_last` convolutions use that memory layout, which is faster on a CPU and equal up to rounding.
    A model that draws random numbers (dropout) is seeded by the key unless `seeded` is False, as threads need:
    they share one generator.
    """

    def __init__(
        self, model: nn.Module, *, loss: Loss = CROSS_ENTROPY, channels_last: bool = False, seeded: bool = True
    ) -> None:
        self.loss = loss
        self.model = copy.deepcopy(model).train()
        self.layout = layout(model)
        self.channels_last = channels_last
        self.seeded = seeded
        vector, self.slope = bind(self.model, channels_last=channels_last)
        self.weights = vector[: self.layout.trained]
        counts = [buffer for buffer in self.model.buffers() if not buffer.is_floating_point()]
        self._counts = [(buffer, buffer.clone()) for buffer in counts]

    def train(self, start: Tensor, job: TrainingJob, key: TrainingKey) -> Tensor:
        """Return the client's update `[d]`: its weights and buffers after training minus those at the start."""
        job = job.pulled_to(start)
        start = start if job.start is None else job.start
        self.load(start)
        data, training = job.data, job.training
        state = begin(training, self.weights)
        center = None if job.proximal is None else self._own_order(job.proximal.center)
        frozen = None if job.mask is None else (~self._own_order(job.mask), self.weights.clone())
        order = torch.from_numpy(batch_order(key, len(data), training.local_epochs)).to(data.rows.device)
        with self._randomness(key):
            for epoch in order:
                rows, labels = data.rows[epoch], data.labels[epoch]
                for at in range(0, len(data), training.batch_size):
                    batch = slice(at, at + training.batch_size)
                    _, gradient = self.loss_and_gradient(data.pool.index_select(0, rows[batch]), labels[batch])
                    if job.proximal is not None and center is not None:
                        gradient.add_((self.weights - center) * job.proximal.strength)
                    step(training, self.weights, gradient, state)
                    if frozen is not None:
                        torch.where(*frozen, self.weights, out=self.weights)
        return flatten(self.model) - start

    def load(self, start: Tensor) -> None:
        """Start from these weights; integer buffers get their initial values."""
        load(self.model, start)
        for buffer, value in self._counts:
            buffer.copy_(value)

    def loss_and_gradient(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss of a batch and its gradient; the next call reuses the gradient's memory."""
        self.slope.zero_()
        if self.channels_last and images.dim() == 4:
            images = images.contiguous(memory_format=torch.channels_last)
        loss = self.loss(self.model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no annotation for it
        return loss.detach(), self.slope

    def _own_order(self, vector: Tensor) -> Tensor:
        """Return the trained part of a vector in the memory order of this copy."""
        return (
            reorder(vector[: self.layout.trained], self.layout) if self.channels_last else vector[: len(self.weights)]
        )

    @contextmanager
    def _randomness(self, key: TrainingKey) -> Iterator[None]:
        if not self.seeded:
            yield
            return
        devices = [self.weights.device] if self.weights.is_cuda else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(int(stream(key[0], "draws", *key[1:]).integers(2**63)))
            yield
