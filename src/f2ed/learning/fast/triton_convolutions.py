"""Convolutions of many clients at once on a GPU, each with its own kernels, in Triton.

cuDNN's grouped convolutions process client after client, by default in TF32. Here one launch serves all clients in
full float32. Activations are stored as `[n, b, height, width, channels]` with a border of zeros, so that what a kernel
sees of one image row is contiguous in memory. All channels but those of the first block are padded with zeros to a
power of two, so that memory is read in wide words and no bounds checks are needed at the edges.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from f2ed.learning.fast.convolutions import Block
from f2ed.learning.fast.triton_kernels import convolve, convolve_and_pool, unpool, weigh

__all__ = ["TritonConvolutions"]


class _Tile(NamedTuple):
    """What one program processes at a time; tuned on an H200."""

    outputs: int
    """Cells or pixels."""
    taps: int
    warps: int
    """For 32 channels."""

    def warps_for(self, channels: int) -> int:
        """Return how many warps share a program's sums of this many channels, so that they fit into registers."""
        return min(8, self.warps * max(1, channels // 32))


class _Tiles(NamedTuple):
    """Tiles for inputs of few channels, such as images, and of many."""

    few: _Tile
    many: _Tile

    def of(self, channels: int) -> _Tile:
        """Return the tile for this many channels."""
        return self.many if channels >= 32 else self.few


_FORWARD = _Tiles(_Tile(64, 32, 4), _Tile(16, 32, 1))
_SUM = _Tiles(_Tile(16, 32, 2), _Tile(16, 64, 2))
_BACKWARD = _Tile(32, 32, 1)
_EACH = 128
"""Cells summed by one program of `weigh`. Independent of the client count, so results are bit-identical."""
_STRIPE = 1024
"""Values processed by one program of `unpool`."""
_PRECISION = "tf32x3"
"""Three TF32 products of split operands on the tensor cores: float32 precision."""


class _Kept(NamedTuple):
    """What the backward pass through a block needs."""

    inputs: Tensor
    kernels: Tensor
    winners: Tensor
    """Which of the four pooled values passed, or 4 where ReLU is zero."""


class TritonConvolutions:
    """Blocks of convolution, pooling and ReLU for all clients in a few launches."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []

    def forward(self, images: Tensor, blocks: Sequence[Block]) -> Tensor:
        """Return the features, in the order of `nn.Flatten`."""
        self._kept = []
        inputs = _laid_out(images.permute(0, 1, 3, 4, 2), blocks[0][0].shape[-1] // 2, images.shape[2])
        for at, (kernels, biases) in enumerate(blocks):
            # The border is for the next block; the last block has none.
            edge = blocks[at + 1][0].shape[-1] // 2 if at + 1 < len(blocks) else 0
            pooled, winners = _pooled(inputs, kernels, biases, edge)
            self._kept.append(_Kept(inputs, kernels, winners))
            inputs = pooled
        return inputs[..., : blocks[-1][0].shape[1]].permute(0, 1, 4, 2, 3).flatten(2)

    def backward(self, slope: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield the gradients of the blocks."""
        for at in range(len(self._kept) - 1, -1, -1):
            inputs, kernels, winners = self._kept.pop()
            if slope.dim() == 3:
                clients, batch, high, wide, outputs = winners.shape
                by_cells = slope.view(clients, batch, -1, high, wide).permute(0, 1, 3, 4, 2)
                slope = _laid_out(by_cells, 0, outputs)
            by_kernels, by_biases = _weighed(inputs, slope, winners, kernels.shape)
            if at:
                slope = _sent_back(slope, winners, kernels, inputs.shape)
            yield at, by_kernels, by_biases


def _laid_out(values: Tensor, edge: int, channels: int) -> Tensor:
    """Return `[n, b, height, width, c]` with a border, and padded to this many channels."""
    clients, batch, height, width, real = values.shape
    out = values.new_zeros(clients, batch, height + 2 * edge, width + 2 * edge, channels)
    out[:, :, edge : height + edge, edge : width + edge, :real].copy_(values)
    return out


def _as_rows(kernels: Tensor, channels: int, outputs: int, multiple: int) -> Tensor:
    """Return kernels `[n, k, k, in, out]` as `[n, rows, out]`, padded with zeros."""
    clients, side, _, real, wanted = kernels.shape
    taps = side * side * channels
    out = kernels.new_zeros(clients, triton.cdiv(taps, multiple) * multiple, outputs)
    out[:, :taps].view(clients, side, side, channels, outputs)[..., :real, :wanted].copy_(kernels)
    return out


def _pooled(padded: Tensor, kernels: Tensor, biases: Tensor, edge: int) -> tuple[Tensor, Tensor]:
    """Return the block's output with a border, and the winners."""
    side, channels, outputs = kernels.shape[-1], padded.shape[-1], _power(kernels.shape[1])
    clients, batch = padded.shape[:2]
    high, wide = ((length - side + 1) // 2 for length in padded.shape[2:4])
    tile = _FORWARD.of(channels)
    rows = _as_rows(kernels.permute(0, 3, 4, 2, 1), channels, outputs, tile.taps)
    out = padded.new_zeros(clients, batch, high + 2 * edge, wide + 2 * edge, outputs)
    winners = torch.empty(clients, batch, high, wide, outputs, dtype=torch.uint8, device=padded.device)
    convolve_and_pool[(triton.cdiv(batch * high * wide, tile.outputs), clients)](
        padded,
        rows,
        torch.nn.functional.pad(biases, (0, outputs - biases.shape[1])),
        out,
        winners,
        batch * high * wide,
        high,
        wide,
        *padded.stride()[:3],
        edge * (out.stride(2) + out.stride(3)),
        *out.stride()[:3],
        CHANNELS=channels,
        SIDE=side,
        ROWS=rows.shape[1],
        OUTPUTS=outputs,
        CELLS=tile.outputs,
        TAPS=tile.taps,
        PRECISION=_PRECISION,
        num_warps=tile.warps_for(outputs),
    )
    return out, winners


def _weighed(padded: Tensor, slope: Tensor, winners: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """Return the gradients by kernels, `[n, out, in, k, k]`, and by biases."""
    clients, wanted, real, side, _ = shape
    batch, high, wide, outputs = winners.shape[1:]
    channels, cells = padded.shape[-1], batch * high * wide
    tile = _SUM.of(channels)
    groups, parts = triton.cdiv(side * side * channels, tile.taps), triton.cdiv(cells, _EACH)
    by_kernels = padded.new_empty(parts, clients, groups * tile.taps, outputs)
    by_biases = padded.new_empty(parts, clients, outputs)
    weigh[(groups, clients, parts)](
        padded,
        slope,
        winners,
        by_kernels,
        by_biases,
        cells,
        high,
        wide,
        _EACH,
        *padded.stride()[:3],
        CHANNELS=channels,
        SIDE=side,
        ROWS=groups * tile.taps,
        OUTPUTS=outputs,
        CELLS=tile.outputs,
        TAPS=tile.taps,
        PRECISION=_PRECISION,
        num_warps=tile.warps_for(outputs),
    )
    taps = by_kernels.sum(0)[:, : side * side * channels].view(clients, side, side, channels, outputs)
    return taps[..., :real, :wanted].permute(0, 4, 3, 1, 2), by_biases.sum(0)[:, :wanted]


def _sent_back(slope: Tensor, winners: Tensor, kernels: Tensor, shape: torch.Size) -> Tensor:
    """Return the gradient by the block's inputs, which have this shape, without the border."""
    clients, batch, high, wide, outputs = winners.shape
    side, channels = kernels.shape[-1], shape[-1]
    by_scores = slope.new_zeros(*shape[:-1], outputs)
    unpool[(triton.cdiv(winners.numel(), _STRIPE),)](
        slope,
        winners,
        by_scores,
        winners.numel(),
        high,
        wide,
        (side // 2) * (by_scores.stride(2) + by_scores.stride(3)),
        *by_scores.stride()[1:3],
        OUTPUTS=outputs,
        STRIPE=_STRIPE,
    )
    # The backward pass is a convolution too: with flipped kernels, from outputs to inputs.
    rows = _as_rows(kernels.flip(3, 4).permute(0, 3, 4, 1, 2), outputs, channels, _BACKWARD.taps)
    height, width = (length - side + 1 for length in shape[2:4])
    out = slope.new_empty(clients, batch, height, width, channels)
    convolve[(triton.cdiv(batch * height * width, _BACKWARD.outputs), clients)](
        by_scores,
        rows,
        out,
        batch * height * width,
        height,
        width,
        *by_scores.stride()[:3],
        CHANNELS=outputs,
        SIDE=side,
        ROWS=rows.shape[1],
        OUTPUTS=channels,
        PIXELS=_BACKWARD.outputs,
        TAPS=_BACKWARD.taps,
        PRECISION=_PRECISION,
        num_warps=_BACKWARD.warps_for(channels),
    )
    return out


def _power(count: int) -> int:
    """Return the padded width for this many columns: a power of two, and at least 16."""
    return max(16, int(triton.next_power_of_2(count)))
