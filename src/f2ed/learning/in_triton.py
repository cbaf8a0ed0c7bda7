"""Convolutions of many clients at once on a GPU, each with its own kernels, in Triton.

The library's grouped convolutions take them client after client, at TF32's precision unless told otherwise. Here one
launch serves all clients in full float32. Activations lie as `[n, b, height, width, channels]` with a border of zeros,
so that what a kernel sees of one row of the picture is one stretch of memory.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from f2ed.learning.convolutions import Block
from f2ed.learning.kernels import convolve, pool, unpool, weigh

__all__ = ["InTriton"]

_PIXELS, _TAPS = 128, 32
"""How many outputs and how many weights a program of `convolve` holds at a time, by measurement."""
_SUMMED = 32
"""How many pixels `weigh` sums at a time."""
_STRIPE = 1024
"""How many numbers a program of the pooling kernels takes."""
_PROGRAMS = 2000
"""What keeps a large GPU busy."""


class _Kept(NamedTuple):
    """What going backwards through a block needs."""

    inputs: Tensor
    kernels: Tensor
    winners: Tensor
    """Which of the four pooled numbers passed, or 4 where ReLU let none pass."""
    height: int
    width: int


class InTriton:
    """Blocks of convolution, pooling and ReLU for all clients in a few launches."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []

    def forward(self, images: Tensor, blocks: Sequence[Block]) -> Tensor:
        """Return the features, in the order of `nn.Flatten`."""
        self._kept = []
        clients, batch, channels, height, width = images.shape
        edge = blocks[0][0].shape[-1] // 2
        inputs = images.new_zeros(clients, batch, height + 2 * edge, width + 2 * edge, channels)
        _inside(inputs, edge).copy_(images.permute(0, 1, 3, 4, 2))
        for at, (kernels, biases) in enumerate(blocks):
            scores = _convolved(inputs, kernels.permute(0, 3, 4, 2, 1), biases.contiguous())
            # The border is the next block's; behind the last there is none.
            edge = blocks[at + 1][0].shape[-1] // 2 if at + 1 < len(blocks) else 0
            pooled, winners = _pooled(scores, edge)
            self._kept.append(_Kept(inputs, kernels, winners, *scores.shape[2:4]))
            inputs = pooled
        return inputs.permute(0, 1, 4, 2, 3).flatten(2)

    def backward(self, slope: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield the slopes of the blocks."""
        for at in range(len(self._kept) - 1, -1, -1):
            inputs, kernels, winners, height, width = self._kept.pop()
            clients, batch, high, wide, outputs = winners.shape
            if slope.dim() == 3:
                slope = slope.view(clients, batch, outputs, high, wide).permute(0, 1, 3, 4, 2)
            edge = kernels.shape[-1] // 2
            by_scores = _unpooled(slope, winners, height, width, edge)
            slopes = _weighed(inputs, by_scores, kernels.shape), _inside(by_scores, edge).sum((1, 2, 3))
            if at:
                # Backwards is a convolution too: with the kernels turned about, from outputs to inputs.
                slope = _convolved(by_scores, kernels.flip(3, 4).permute(0, 3, 4, 1, 2), None)
            yield at, slopes[0].permute(0, 4, 3, 1, 2), slopes[1]


def _inside(padded: Tensor, edge: int) -> Tensor:
    height, width = padded.shape[2:4]
    return padded[:, :, edge : height - edge, edge : width - edge]


def _convolved(padded: Tensor, kernels: Tensor, biases: Tensor | None) -> Tensor:
    """Return `[n, b, height, width, out]` from padded inputs and kernels `[n, k, k, in, out]`."""
    kernels = kernels.contiguous()
    clients, side, _, channels, outputs = kernels.shape
    batch, height, width = padded.shape[1], padded.shape[2] - side + 1, padded.shape[3] - side + 1
    out = padded.new_empty(clients, batch, height, width, outputs)
    convolve[(triton.cdiv(batch * height * width, _PIXELS), clients)](
        padded,
        kernels,
        out if biases is None else biases,
        out,
        batch * height * width,
        height,
        width,
        *padded.stride()[:3],
        OUTPUTS=outputs,
        CHANNELS=channels,
        SIDE=side,
        PIXELS=_PIXELS,
        WIDE=_power(outputs),
        TAPS=_TAPS,
        BIASED=biases is not None,
    )
    return out


def _weighed(padded: Tensor, by_scores: Tensor, shape: torch.Size) -> Tensor:
    """Return the slopes by kernels, `[n, k, k, in, out]`."""
    clients, outputs, channels, side, _ = shape
    batch, height, width = padded.shape[1], padded.shape[2] - side + 1, padded.shape[3] - side + 1
    pixels, taps = batch * height * width, side * side * channels
    groups = triton.cdiv(taps, _TAPS)
    # With few kernels, several programs share the pixels of each, so that all of the GPU has work.
    parts = min(triton.cdiv(_PROGRAMS, groups * clients), triton.cdiv(pixels, 4 * _SUMMED))
    each = triton.cdiv(triton.cdiv(pixels, parts), _SUMMED) * _SUMMED
    out = padded.new_empty(parts, clients, side, side, channels, outputs)
    weigh[(groups, clients, parts)](
        padded,
        by_scores,
        out,
        pixels,
        height,
        width,
        each,
        (side // 2) * (by_scores.stride(2) + by_scores.stride(3)),
        *padded.stride()[:3],
        *by_scores.stride()[:3],
        OUTPUTS=outputs,
        CHANNELS=channels,
        SIDE=side,
        SUMMED=_SUMMED,
        WIDE=_power(outputs),
        TAPS=_TAPS,
    )
    return out[0] if parts == 1 else out.sum(0)


def _pooled(scores: Tensor, edge: int) -> tuple[Tensor, Tensor]:
    clients, batch, height, width, outputs = scores.shape
    high, wide = height // 2, width // 2
    out = scores.new_zeros(clients, batch, high + 2 * edge, wide + 2 * edge, outputs)
    winners = torch.empty(clients, batch, high, wide, outputs, dtype=torch.uint8, device=scores.device)
    pool[(triton.cdiv(winners.numel(), _STRIPE),)](
        scores,
        out,
        winners,
        winners.numel(),
        high,
        wide,
        height,
        width,
        edge * (out.stride(2) + out.stride(3)),
        *out.stride()[1:3],
        OUTPUTS=outputs,
        STRIPE=_STRIPE,
    )
    return out, winners


def _unpooled(slope: Tensor, winners: Tensor, height: int, width: int, edge: int) -> Tensor:
    clients, batch, high, wide, outputs = winners.shape
    out = slope.new_zeros(clients, batch, height + 2 * edge, width + 2 * edge, outputs)
    unpool[(triton.cdiv(winners.numel(), _STRIPE),)](
        slope,
        winners,
        out,
        winners.numel(),
        high,
        wide,
        edge * (out.stride(2) + out.stride(3)),
        *slope.stride()[1:],
        *out.stride()[1:3],
        OUTPUTS=outputs,
        STRIPE=_STRIPE,
    )
    return out


def _power(count: int) -> int:
    """Return the width of a product that holds so many columns: a power of two, and 16 at least."""
    return max(16, int(triton.next_power_of_2(count)))
