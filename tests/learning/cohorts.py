"""Small models, clients and references for the tests of training."""

import torch
from torch import Tensor, nn

from f2ed.learning import cohort
from f2ed.learning.client import LocalTrainer, TrainingJob, TrainingKey, split_samples
from f2ed.learning.datasets import Digits, Synthetic
from f2ed.learning.optimizer import Training
from f2ed.learning.partition import Assigned, Iid
from f2ed.learning.vector import flatten

SEED, ROUND = 5, 2
SIZES = (23, 7, 40, 1, 23, 12)


class Noisy(nn.Sequential):
    """A model with dropout."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(36, 8), nn.Dropout(0.5), nn.Linear(8, 3))


class Attentive(nn.Module):
    """A model that is neither dense nor convolutional, with a constant buffer that must not be trained."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(6, 8)
        self.norm = nn.LayerNorm(8)
        self.out = nn.Linear(8, 3)
        self.register_buffer("place", torch.linspace(0, 1, 6)[:, None].repeat(1, 8))

    def forward(self, images: Tensor) -> Tensor:
        tokens = torch.tanh(self.embed(images.squeeze(1)) + self.place)
        return self.out(self.norm(tokens).mean(1))


class Stateful(nn.Module):
    """A model that `vmap` refuses: a condition on its data."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(36, 3)

    def forward(self, images: Tensor) -> Tensor:
        scores = self.out(images.flatten(1))
        return scores * 2 if float(images.sum()) > 0 else scores


class Mixing(nn.Module):
    """A model whose samples see each other, which padding would disturb without any error."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(36, 3)

    def forward(self, images: Tensor) -> Tensor:
        flat = images.flatten(1)
        return self.out(flat - flat.mean(0))


def clients(sizes=SIZES, seed=0):
    """Hand a synthetic set of 6 x 6 images with three classes out in these sizes."""
    data = Synthetic(train=sum(sizes), test=9, classes=3, side=6, seed=seed)()
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    lists = tuple(tuple(range(end - size, end)) for end, size in zip(ends, sizes, strict=True))
    return split_samples(data.train, Assigned(clients=lists)(data.train.labels.numpy(), len(sizes), 0))


def jobs(training=None, sizes=SIZES, **changes):
    """Return one job for each client."""
    training = training or Training(lr=0.1, batch_size=5, local_epochs=2)
    return [TrainingJob(number, data, training, **changes) for number, data in enumerate(clients(sizes))]


def digit_jobs(training, count=4):
    """Return jobs on the digits."""
    train = Digits()().train
    assigned = split_samples(train, Iid()(train.labels.numpy(), 30, 0))
    return [TrainingJob(number, assigned[number], training) for number in range(count)]


def reference(model, work):
    """Train the jobs one by one with a fresh reference each."""
    start = flatten(model)
    with cohort._precision(start.device, None):  # On a GPU torch's default for convolutions is TF32.
        return torch.stack(
            [LocalTrainer(model).train(start, job, TrainingKey(SEED, ROUND, job.client, job.repeat)) for job in work]
        )
