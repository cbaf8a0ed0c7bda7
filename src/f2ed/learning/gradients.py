"""The gradients of many clients at once: by `vmap` for any model that allows it, by hand for stacks of dense layers."""

import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from f2ed.learning.vector import Layout, layout

__all__ = ["DenseGradients", "Gradients", "by_hand", "by_vmap"]

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


def by_hand(model: nn.Module) -> "DenseGradients | None":
    """Return the gradients of a stack of dense layers with ReLU between them, or None if the model is no such stack."""
    return DenseGradients(layout(model)) if _is_dense(model) else None


class DenseGradients:
    """Batched matrix products without autograd: several times faster than `vmap` on a CPU.

    Small models are bound there by overhead, and by moving weights through memory.
    """

    def __init__(self, shape: Layout) -> None:
        self.shape = shape

    def __call__(self, weights: Tensor, buffers: Tensor, images: Tensor, labels: Tensor, shares: Tensor) -> Tensor:  # noqa: ARG002  dense layers have none
        """Return the gradients."""
        out = torch.empty_like(weights)
        to_matrices, to_biases = zip(*self._stack(out), strict=True)
        for at, slope, inputs in self._slopes(weights, images, labels, shares):
            torch.bmm(slope.transpose(1, 2), inputs, out=to_matrices[at])
            torch.sum(slope, 1, out=to_biases[at])
        return out

    def descend(self, weights: Tensor, images: Tensor, labels: Tensor, shares: Tensor) -> None:
        """Subtract the gradients, with `shares` times the learning rate, straight from the weights."""
        stack = self._stack(weights)
        for at, slope, inputs in self._slopes(weights, images, labels, -shares):
            matrix, bias = stack[at]
            matrix.baddbmm_(slope.transpose(1, 2), inputs)
            bias.add_(slope.sum(1))

    def _slopes(
        self, weights: Tensor, images: Tensor, labels: Tensor, shares: Tensor
    ) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield, from the last layer to the first, its number, the loss's slope by its output, and its input.

        A layer's matrix is no longer needed when it is yielded.
        """
        stack, inputs = self._stack(weights), [images.flatten(2)]
        for matrix, bias in stack:
            scores = torch.baddbmm(bias.unsqueeze(1), inputs[-1], matrix.transpose(1, 2))
            inputs.append(scores.relu_() if len(inputs) < len(stack) else scores)
        slope = inputs.pop().softmax(2)
        slope.scatter_add_(2, labels.unsqueeze(2), slope.new_full((1, 1, 1), -1).expand(*labels.shape, 1))
        slope.mul_(shares.unsqueeze(2))
        for at in range(len(stack) - 1, -1, -1):
            earlier = torch.bmm(slope, stack[at][0]).mul_(inputs[at] > 0) if at else slope
            yield at, slope, inputs[at]
            slope = earlier

    def _stack(self, weights: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return each layer's matrices `[n, out, in]` and biases `[n, out]` as views."""
        parts = weights.split_with_sizes(self.shape.sizes, 1)
        tensors = [part.view(-1, *size) for part, size in zip(parts, self.shape.shapes, strict=True)]
        return list(zip(tensors[::2], tensors[1::2], strict=True))


def _is_dense(model: nn.Module) -> bool:
    """Say whether the model is `Sequential(Flatten, Linear, ReLU, …, Linear)` with biases."""
    if type(model) is not nn.Sequential or type(model[0]) is not nn.Flatten:
        return False
    layers, between = list(model)[1::2], list(model)[2::2]
    return (
        (model[0].start_dim, model[0].end_dim) == (1, -1)
        and len(layers) == len(between) + 1
        and all(type(layer) is nn.Linear and layer.bias is not None for layer in layers)
        and all(type(layer) is nn.ReLU for layer in between)
    )
