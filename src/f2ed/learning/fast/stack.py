"""Hand-written gradients of plain networks for many clients at once: convolution blocks, then dense layers."""

import torch
from torch import Tensor, nn

from f2ed.learning.fast.convolutions import Block, Convolutions, OneByOne
from f2ed.learning.vector import Layout, layout

__all__ = ["StackGradients", "stack_gradients"]


def stack_gradients(model: nn.Module, convolutions: type[Convolutions] | None = OneByOne) -> "StackGradients | None":
    """Return the gradients of a plain stack of layers; None for other models, or without the convolutions it needs.

    A plain stack is `Sequential(Conv2d, MaxPool2d, ReLU, …, Flatten, Linear, ReLU, …, Linear)`, with zero or
    more convolution blocks.
    """
    if type(model) is not nn.Sequential or not len(model):
        return None
    layers = list(model)
    blocks = 0
    while _is_block(layers[3 * blocks : 3 * blocks + 3]):
        blocks += 1
    if not _is_dense(layers[3 * blocks :]) or (blocks and convolutions is None):
        return None
    return StackGradients(layout(model), blocks, convolutions() if blocks and convolutions else None)


class StackGradients:
    """Batched matrix products without autograd: several times faster than `vmap` on a CPU for small models.

    Small models are limited there by overhead and memory traffic. One object serves one thread.
    """

    def __init__(self, shape: Layout, blocks: int = 0, convolutions: Convolutions | None = None) -> None:
        self.shape, self.blocks, self.convolutions = shape, blocks, convolutions

    def __call__(self, weights: Tensor, buffers: Tensor, images: Tensor, labels: Tensor, shares: Tensor) -> Tensor:  # noqa: ARG002  these layers have none
        """Return the gradients."""
        out = torch.zeros_like(weights)
        self._add(out, weights, images, labels, shares)
        return out

    def descend(self, weights: Tensor, images: Tensor, labels: Tensor, shares: Tensor) -> None:
        """Subtract the gradients, with `shares` times the learning rate, from the weights in place."""
        self._add(weights, weights, images, labels, -shares)

    def _add(self, out: Tensor, weights: Tensor, images: Tensor, labels: Tensor, shares: Tensor) -> None:
        """Add the gradients to `out`, last layer first.

        `out` may be the weights themselves, so a layer's gradient is added only when its weights are no longer needed.
        """
        layers, to = self._layers(weights), self._layers(out)
        front, dense = layers[: self.blocks], layers[self.blocks :]
        inputs = [images.flatten(2) if self.convolutions is None else self.convolutions.forward(images, front)]
        for matrix, bias in dense:
            scores = torch.baddbmm(bias.unsqueeze(1), inputs[-1], matrix.transpose(1, 2))
            inputs.append(scores.relu_() if len(inputs) < len(dense) else scores)
        slope = inputs.pop().softmax(2)
        slope.scatter_add_(2, labels.unsqueeze(2), slope.new_full((1, 1, 1), -1).expand(*labels.shape, 1))
        slope.mul_(shares.unsqueeze(2))
        for at in range(len(dense) - 1, -1, -1):
            earlier = torch.bmm(slope, dense[at][0]) if at or front else slope
            if at:
                earlier.mul_(inputs[at] > 0)
            matrix, bias = to[self.blocks + at]
            matrix.baddbmm_(slope.transpose(1, 2), inputs[at])
            bias.add_(slope.sum(1))
            slope = earlier
        if self.convolutions is not None:
            for at, by_kernels, by_biases in self.convolutions.backward(slope):
                to[at][0].add_(by_kernels)
                to[at][1].add_(by_biases)

    def _layers(self, weights: Tensor) -> list[Block]:
        """Return each layer's matrices `[n, out, in]` or kernels, and biases `[n, out]`, as views."""
        parts = weights.split_with_sizes(self.shape.sizes, 1)
        tensors = [part.view(-1, *size) for part, size in zip(parts, self.shape.shapes, strict=True)]
        return list(zip(tensors[::2], tensors[1::2], strict=True))


def _is_block(layers: list[nn.Module]) -> bool:
    """Return whether these are a convolution with same padding, 2 x 2 pooling and ReLU."""
    if len(layers) < 3:
        return False
    convolution, pooling, last = layers
    if type(convolution) is not nn.Conv2d or type(pooling) is not nn.MaxPool2d or type(last) is not nn.ReLU:
        return False
    side = convolution.kernel_size[0]
    return (
        side % 2 == 1
        and convolution.kernel_size == (side, side)
        and convolution.padding == (side // 2, side // 2)
        and (convolution.stride, convolution.dilation, convolution.groups) == ((1, 1), (1, 1), 1)
        and convolution.padding_mode == "zeros"
        and convolution.bias is not None
        and (pooling.kernel_size, pooling.stride, pooling.padding, pooling.dilation) == (2, 2, 0, 1)
        and not pooling.ceil_mode
        and not pooling.return_indices
    )


def _is_dense(layers: list[nn.Module]) -> bool:
    """Return whether these are `Flatten, Linear, ReLU, …, Linear` with biases."""
    if not layers or type(layers[0]) is not nn.Flatten:
        return False
    dense, between = layers[1::2], layers[2::2]
    return (
        (layers[0].start_dim, layers[0].end_dim) == (1, -1)
        and len(dense) == len(between) + 1
        and all(type(layer) is nn.Linear and layer.bias is not None for layer in dense)
        and all(type(layer) is nn.ReLU for layer in between)
    )
