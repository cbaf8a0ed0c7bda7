"""The convolutional front of a network for many clients at once: a protocol, and torch's own implementation."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

__all__ = ["Block", "Convolutions", "OneByOne"]

Block = tuple[Tensor, Tensor]
"""Kernels `[n, out, in, k, k]` and biases `[n, out]` of one layer, for all clients."""

_STEP, _NOT_DILATED, _ONE_GROUP = [1, 1], [1, 1], 1
_HALF, _NO_EDGE = [2, 2], [0, 0]


class Convolutions(Protocol):
    """Blocks of a convolution (odd square kernels, same padding), 2 x 2 pooling and ReLU, forward and backward.

    `forward` stores what `backward` needs, so one object serves one thread.
    """

    def forward(self, images: Tensor, blocks: Sequence[Block]) -> Tensor:
        """Return the features `[n, b, f]` of images `[n, b, channels, height, width]`."""
        ...

    def backward(self, slope: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """From the gradient by the features yield each block's number and gradients, last block first.

        A block's kernels are no longer needed once it is yielded.
        """
        ...


class _Kept(NamedTuple):
    """What the backward pass through one client's block needs."""

    inputs: Tensor
    kernel: Tensor
    scores: Tensor
    winners: Tensor
    pooled: Tensor


class OneByOne:
    """Client after client with torch's own convolutions; on a CPU nothing is gained by batching clients.

    Calling them without autograd saves its overhead.
    """

    def __init__(self) -> None:
        self._kept: list[list[_Kept]] = []

    def forward(self, images: Tensor, blocks: Sequence[Block]) -> Tensor:
        """Return the features, in the order of `nn.Flatten`."""
        self._kept = []
        features = []
        for client, inputs in enumerate(images):
            now = inputs
            kept: list[_Kept] = []
            for kernels, biases in blocks:
                # The kernel's memory format determines the output's, and pooling is faster on channels-last.
                kernel = kernels[client].clone(memory_format=torch.channels_last)
                edge = [kernel.shape[2] // 2] * 2
                scores = torch.convolution(
                    now, kernel, biases[client], _STEP, edge, _NOT_DILATED, False, _NO_EDGE, _ONE_GROUP
                )
                pooled, winners = torch.ops.aten.max_pool2d_with_indices(scores, _HALF)
                kept.append(_Kept(now, kernel, scores, winners, pooled.relu_()))
                now = pooled
            self._kept.append(kept)
            features.append(now.flatten(1))
        return torch.stack(features)

    def backward(self, slope: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield the gradients of the blocks."""
        slopes = [part.view(kept[-1].pooled.shape) for part, kept in zip(slope, self._kept, strict=True)]
        for block in range(len(self._kept[0]) - 1, -1, -1):
            wanted = [block > 0, True, True]
            by_kernels, by_biases = [], []
            for client, kept in enumerate(self._kept):
                inputs, kernel, scores, winners, pooled = kept.pop()
                passed = slopes[client].mul(pooled > 0).contiguous(memory_format=torch.channels_last)
                by_scores = torch.ops.aten.max_pool2d_with_indices_backward(
                    passed, scores, _HALF, _HALF, _NO_EDGE, _NOT_DILATED, False, winners
                )
                edge = [kernel.shape[2] // 2] * 2
                slopes[client], by_kernel, by_bias = torch.ops.aten.convolution_backward(
                    by_scores,
                    inputs,
                    kernel,
                    [len(kernel)],
                    _STEP,
                    edge,
                    _NOT_DILATED,
                    False,
                    _NO_EDGE,
                    _ONE_GROUP,
                    wanted,
                )
                by_kernels.append(by_kernel)
                by_biases.append(by_bias)
            yield block, torch.stack(by_kernels), torch.stack(by_biases)
