"""What the server holds after one round in one shard: the decoded mean of the members' updates, and the model.

The mean equals that of masked sums to the bit: updates are clipped, rounded to integers and added modulo 2^b. Only the
masks are left out, since they cancel.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from f2ed.learning import Data, Layout, Samples, layout
from f2ed.protocol.quantization.encoding import Encoding, decode_mean, encode

__all__ = ["ServerView", "as_pixels", "draw_shard", "opened_mean", "view_of"]

_ENCODING = Encoding(clip_value=1.0)


@dataclass(frozen=True, eq=False)
class ServerView:
    """What the server sees of a shard; `batch_size`, `lr` and `steps` are public settings of the run."""

    mean: Tensor
    """The mean update [d]."""
    model: nn.Module
    members: int
    batch_size: int
    lr: float
    steps: int
    black: float
    white: float

    @property
    def samples(self) -> int:
        """The number of images that went into the mean."""
        return self.members * self.batch_size

    @property
    def layout(self) -> Layout:
        """The tensors that the parts of the mean belong to."""
        return layout(self.model)

    def part(self, name: str) -> Tensor:
        """Return the mean's part for one tensor of the model."""
        return self.layout.views(self.mean)[name]


def draw_shard(data: Data, members: int, batch_size: int, rng: np.random.Generator) -> list[Samples]:
    """Draw each member's samples from the training set."""
    rows = rng.choice(len(data.train), size=(members, batch_size), replace=False)
    return [data.train.take(torch.from_numpy(some)) for some in rows]


def view_of(
    model: nn.Module,
    shard: list[Samples],
    data: Data,
    rng: np.random.Generator,
    *,
    lr: float = 0.1,
    steps: int = 1,
    encoding: Encoding = _ENCODING,
) -> ServerView:
    """Let the members take `steps` full-batch gradient steps each, and return what the server then sees."""
    updates = [update(model, samples, lr=lr, steps=steps) for samples in shard]
    mean = torch.from_numpy(opened_mean(updates, rng, encoding))
    return ServerView(mean, model, len(shard), len(shard[0]), lr, steps, data.black, data.white)


def update(model: nn.Module, samples: Samples, *, lr: float, steps: int = 1) -> NDArray[np.float32]:
    """Return the update after these steps; the model itself is not changed."""
    weights = {name: value.detach().clone() for name, value in model.named_parameters()}
    for _ in range(steps):
        leaves = {name: value.requires_grad_() for name, value in weights.items()}
        scores = torch.func.functional_call(model, leaves, (samples.images,))
        slopes = torch.autograd.grad(cross_entropy(scores, samples.labels), list(leaves.values()))
        weights = {name: leaves[name].detach() - lr * slope for name, slope in zip(leaves, slopes, strict=True)}
    moved = [(weights[name] - value.detach()).reshape(-1) for name, value in model.named_parameters()]
    return np.asarray(torch.cat(moved).numpy(), dtype=np.float32)


def opened_mean(
    updates: list[NDArray[np.float32]], rng: np.random.Generator, encoding: Encoding = _ENCODING
) -> NDArray[np.float32]:
    """Return the mean that the server decodes from the sum of the encoded updates, noise of the encoding included."""
    words = [encode(each, encoding, clients=len(updates), key=rng.bytes(32)) for each in updates]
    total = words[0]
    for other in words[1:]:
        total += other
    return decode_mean(total, encoding, clients=len(updates), survivors=len(updates)).mean


def as_pixels(images: Tensor, black: float, white: float) -> NDArray[np.float64]:
    """Undo the normalization: 0 is black and 1 is white."""
    return np.asarray(((images - black) / (white - black)).double().numpy())
