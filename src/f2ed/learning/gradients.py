"""The gradients of many clients at once, by `vmap` for any model that allows it."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from f2ed.learning.vector import layout

__all__ = ["Gradients", "by_vmap"]

Gradients = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""From trained weights `[n, t]`, buffers `[d - t]`, images `[n, b, …]`, labels and shares `[n, b]` to the gradients.

A client's loss is the sum over its batch, each sample times its share; one with share zero is padding.
"""


def by_vmap(model: nn.Module, *, at_once: int | None = None) -> Gradients:
    """Return the gradients of any model whose forward pass is a pure function of weights and images.

    Given `at_once`, it takes so many clients at a time. Each answer has a copy of the model, whose tensors are
    swapped at every call: use it in one thread at a time.
    """
    shape, model = layout(model), copy.deepcopy(model)

    def loss(weights: Tensor, buffers: Tensor, images: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        tensors = shape.views(torch.cat((weights, buffers)) if len(buffers) else weights)
        scores = functional_call(model, tensors, (images,))
        return (cross_entropy(scores, labels, reduction="none") * share).sum()

    batched: Gradients = vmap(grad(loss), in_dims=(0, None, 0, 0, 0), chunk_size=at_once)
    return batched
