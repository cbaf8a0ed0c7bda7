"""The gradients of many clients at once: by `vmap` for any model that allows it, by hand for stacks of dense layers."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from f2ed.learning.vector import Layout, layout

__all__ = ["Gradients", "by_hand", "by_vmap"]

Gradients = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""From trained weights `[n, t]`, buffers `[d - t]`, images `[n, b, …]`, labels and shares `[n, b]` to the gradients.

A client's loss is the sum over its batch, each sample times its share; one with share zero is padding.
"""


def by_vmap(model: nn.Module) -> Gradients:
    """Return the gradients of any model whose forward pass is a pure function of weights and images.

    Each answer has a copy of the model, whose tensors are swapped at every call: use it in one thread at a time.
    """
    shape, model = layout(model), copy.deepcopy(model)

    def loss(weights: Tensor, buffers: Tensor, images: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        tensors = shape.views(torch.cat((weights, buffers)) if len(buffers) else weights)
        scores = functional_call(model, tensors, (images,))
        return (cross_entropy(scores, labels, reduction="none") * share).sum()

    batched: Gradients = vmap(grad(loss), in_dims=(0, None, 0, 0, 0))
    return batched


def by_hand(model: nn.Module) -> Gradients | None:
    """Return the gradients of a stack of dense layers with ReLU between them, or None if the model is no such stack.

    Batched matrix products without autograd: several times faster than `vmap` on a CPU, where small
    models are bound by overhead.
    """
    layers = _dense_layers(model)
    if layers is None:
        return None
    shape = layout(model)

    def gradients(weights: Tensor, _: Tensor, images: Tensor, labels: Tensor, share: Tensor) -> Tensor:
        stack = _stack(shape, weights)
        inputs = [images.flatten(2)]
        for matrix, bias in stack:
            scores = torch.baddbmm(bias.unsqueeze(1), inputs[-1], matrix.transpose(1, 2))
            inputs.append(scores.relu_() if len(inputs) < len(stack) else scores)
        slope = inputs.pop().softmax(2)
        slope.scatter_add_(2, labels.unsqueeze(2), torch.full_like(labels, -1, dtype=slope.dtype).unsqueeze(2))
        slope.mul_(share.unsqueeze(2))
        out = torch.empty_like(weights)
        for (matrix, _), (to_matrix, to_bias), seen in reversed(
            list(zip(stack, _stack(shape, out), inputs, strict=True))
        ):
            torch.bmm(slope.transpose(1, 2), seen, out=to_matrix)
            torch.sum(slope, 1, out=to_bias)
            if seen is not inputs[0]:
                slope = torch.bmm(slope, matrix).mul_(seen > 0)
        return out

    return gradients


def _dense_layers(model: nn.Module) -> list[nn.Linear] | None:
    """Return the dense layers of `Sequential(Flatten, Linear, ReLU, …, Linear)`, or None for anything else."""
    if type(model) is not nn.Sequential or len(model) < 2 or type(model[0]) is not nn.Flatten:
        return None
    layers, between = list(model)[1::2], list(model)[2::2]
    usual = model[0].start_dim == 1 and model[0].end_dim == -1 and len(layers) == len(between) + 1
    dense = [layer for layer in layers if type(layer) is nn.Linear and layer.bias is not None]
    if usual and len(dense) == len(layers) and all(type(layer) is nn.ReLU for layer in between):
        return dense
    return None


def _stack(shape: Layout, weights: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return each layer's matrices `[n, out, in]` and biases `[n, out]` as views."""
    parts = weights.split_with_sizes(shape.sizes, 1)
    tensors = [part.view(-1, *size) for part, size in zip(parts, shape.shapes, strict=True)]
    return list(zip(tensors[::2], tensors[1::2], strict=True))
