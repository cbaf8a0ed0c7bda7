"""The gradients of many clients, by `torch.func` for any model that allows it."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from f2ed.learning.losses import CROSS_ENTROPY, Loss
from f2ed.learning.vector import layout

__all__ = ["Gradients", "by_vmap", "one_by_one"]

Gradients = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""From trained weights `[n, t]`, buffers `[d - t]`, images `[n, b, …]`, labels and shares `[n, b]` to the gradients.

A client's loss is the sum over its batch, each sample times its share; one with share zero is padding.
"""


def by_vmap(model: nn.Module, loss: Loss = CROSS_ENTROPY) -> Gradients:
    """Return the gradients of any model whose forward pass is a pure function of weights and images.

    Each result holds a copy of the model whose tensors are swapped at every call: use it in one thread at a time.
    """
    batched: Gradients = vmap(_of_one(model, loss), in_dims=(0, None, 0, 0, 0))
    return batched


def one_by_one(model: nn.Module, loss: Loss = CROSS_ENTROPY) -> Gradients:
    """Return the same gradients, computed client by client."""
    of_one = _of_one(model, loss)

    def gradients(weights: Tensor, buffers: Tensor, images: Tensor, labels: Tensor, shares: Tensor) -> Tensor:
        each = zip(weights, images, labels, shares, strict=True)
        return torch.stack([of_one(mine, buffers, *batch) for mine, *batch in each])

    return gradients


def _of_one(model: nn.Module, task: Loss) -> Callable[..., Tensor]:
    """Return the gradient of one client."""
    shape, model = layout(model), copy.deepcopy(model)

    def loss(weights: Tensor, buffers: Tensor, images: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        tensors = shape.views(torch.cat((weights, buffers)) if len(buffers) else weights)
        scores = functional_call(model, tensors, (images,))
        return (task.each(scores, labels) * share).sum()

    return grad(loss)
