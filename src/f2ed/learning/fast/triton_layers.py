"""Convolution and group normalization of many clients at once on a GPU, each with its own weights, in Triton.

Activations are `[n * b, channels, height, width]` in channels-last order, clients one after another; weights are
`[n, ...]`. With bfloat16 activations products are in bfloat16, sums in float32. With float32 activations they are in
TF32 or better where cuDNN may use it, otherwise in float32's precision by several products of split factors.
"""

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from f2ed.learning.fast.triton_layer_kernels import convolve, normalize, normalize_back, weigh

__all__ = ["TritonLayers"]


class _Tile(NamedTuple):
    """What one program computes at a time, and how."""

    rows: int
    columns: int
    inner: int
    warps: int
    stages: int
    product: str
    """Triton's name for the precision of products."""


_PART = 4096
"""Pixels summed by one program of `weigh`, at least. Independent of the client count, so results are bit-identical."""


class TritonLayers:
    """The layers, as functions that autograd can differentiate."""

    @staticmethod
    def convolve(images: Tensor, kernels: Tensor, stride: int, edge: int) -> Tensor:
        """Convolve images with kernels `[n, out, in, k, k]`."""
        out: Tensor = _Convolution.apply(images, kernels, stride, edge)  # type: ignore[no-untyped-call]
        return out

    @staticmethod
    def normalize(images: Tensor, groups: int, scales: Tensor, shifts: Tensor, tiny: float) -> Tensor:
        """Normalize by groups of channels, then scale and shift by `[n, channels]`."""
        out: Tensor = _Normalization.apply(images, groups, scales, shifts, tiny)  # type: ignore[no-untyped-call]
        return out

    @staticmethod
    def supports(channels: int) -> bool:
        """Return whether `normalize` can handle this many channels."""
        return channels & (channels - 1) == 0


def _precision(images: Tensor) -> str:
    if images.dtype == torch.bfloat16:
        return "bf16"
    return "tf32" if torch.backends.cudnn.allow_tf32 else "float32"


_PRODUCTS = {"bf16": "ieee", "tf32": "tf32", "float32": "tf32x3"}
# Sums over pixels read both factors across, which tensor cores allow for bfloat16 only: factors are split into two or
# three numbers of that type, for three or six products.
_PRODUCTS_ACROSS = {"bf16": "ieee", "tf32": "bf16x3", "float32": "bf16x6"}


def _tile(kind: str, channels: int, outputs: int, precision: str) -> _Tile:
    """Return the tile of a convolution; tuned on an H200."""
    columns = 128 if outputs >= 128 else 64 if outputs > 32 else 32 if outputs > 16 else 16
    half = precision == "bf16"
    if kind != "weights":
        inner = 64 if channels >= 64 and half else 32 if channels >= 32 else 16
        return _Tile(128, columns, inner, 8 if columns == 128 else 4, 3, _PRODUCTS[precision])
    if channels < 16 or (columns < 64 and precision == "tf32"):
        return _Tile(columns, 128, 64 if half else 32, 8 if channels < 16 else 4, 3, _PRODUCTS[precision])
    taps = 64 if half and outputs > 128 else 128
    inner = 64 if half or columns == 128 else 32
    return _Tile(columns, taps, inner, 8 if columns == 128 and not half else 4, 3, _PRODUCTS_ACROSS[precision])


def _empty(like: Tensor, batch: int, channels: int, height: int, width: int) -> Tensor:
    return torch.empty(
        batch, channels, height, width, dtype=like.dtype, device=like.device, memory_format=torch.channels_last
    )


def _packed(kernels: Tensor, dtype: torch.dtype) -> Tensor:
    """Return kernels as `[n, k, k, out, in]`."""
    return kernels.permute(0, 3, 4, 1, 2).to(dtype).contiguous()


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, kernels: Tensor, stride: int, edge: int) -> Tensor:
        images = images.contiguous(memory_format=torch.channels_last)
        packed = _packed(kernels, images.dtype)
        precision = _precision(images)
        _, outputs, channels, side, _ = kernels.shape
        high, wide = ((length + 2 * edge - side) // stride + 1 for length in images.shape[2:])
        out = _empty(images, len(images), outputs, high, wide)
        _launch(images, packed, out, (channels, outputs, side, stride, edge), precision, back=False)
        ctx.save_for_backward(images, packed)
        ctx.settings = (channels, outputs, side, stride, edge), precision
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        images, packed = ctx.saved_tensors
        shape, precision = ctx.settings
        slope = slopes[0].contiguous(memory_format=torch.channels_last)
        by_images = None
        if ctx.needs_input_grad[0]:
            by_images = torch.empty_like(images)
            channels, outputs, side, stride, edge = shape
            turned = packed.transpose(3, 4)
            if packed.dtype == torch.float32:
                # Tensor cores read TF32 only if what is summed over is contiguous.
                turned = turned.contiguous()
            _launch(slope, turned, by_images, (outputs, channels, side, stride, edge), precision, back=True)
        by_kernels = _weighed(images, slope, len(packed), shape, precision) if ctx.needs_input_grad[1] else None
        return by_images, by_kernels, None, None


def _launch(images: Tensor, packed: Tensor, out: Tensor, shape: tuple[int, ...], precision: str, *, back: bool) -> None:
    channels, outputs, side, stride, edge = shape
    clients = len(packed)
    batch = len(images) // clients
    high, wide = out.shape[2:]
    kinds = stride * stride if back else 1
    pixels = batch * (-(-high // stride) * -(-wide // stride) if back else high * wide)
    tile = _tile("back" if back else "forward", channels, outputs, precision)
    grid = triton.cdiv(outputs, tile.columns), triton.cdiv(pixels, tile.rows) * kinds, clients
    convolve[grid](
        images,
        packed,
        out,
        pixels,
        *images.shape[2:],
        high,
        wide,
        batch * images.stride(0),
        packed.stride(0),
        packed.stride(2),
        packed.stride(4),
        packed.stride(3),
        batch * out.stride(0),
        CHANNELS=channels,
        OUTPUTS=outputs,
        SIDE=side,
        STRIDE=stride,
        EDGE=edge,
        BACK=back,
        PIXELS=tile.rows,
        COLUMNS=tile.columns,
        INNER=tile.inner,
        PRECISION=tile.product,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


def _weighed(images: Tensor, slope: Tensor, clients: int, shape: tuple[int, ...], precision: str) -> Tensor:
    """Return the gradients by kernels `[n, out, in, k, k]`."""
    channels, outputs, side, stride, edge = shape
    batch = len(images) // clients
    high, wide = slope.shape[2:]
    pixels = batch * high * wide
    tile = _tile("weights", channels, outputs, precision)
    parts = max(1, pixels // _PART)
    each = triton.cdiv(triton.cdiv(pixels, parts), tile.inner) * tile.inner
    out = torch.empty(parts, clients, outputs, side, side, channels, device=images.device)
    blocks = triton.cdiv(outputs, tile.rows) * triton.cdiv(side * side * channels, tile.columns)
    weigh[(blocks, parts, clients)](
        images,
        slope,
        out,
        pixels,
        each,
        *images.shape[2:],
        high,
        wide,
        batch * images.stride(0),
        batch * slope.stride(0),
        CHANNELS=channels,
        OUTPUTS=outputs,
        SIDE=side,
        STRIDE=stride,
        EDGE=edge,
        PIXELS=tile.inner,
        ROWS=tile.rows,
        TAPS=tile.columns,
        PRECISION=tile.product,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    total = out[0] if parts == 1 else out.sum(0)
    return total.permute(0, 1, 4, 2, 3)


class _Normalization(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, groups: int, scales: Tensor, shifts: Tensor, tiny: float) -> Tensor:
        images = images.contiguous(memory_format=torch.channels_last)
        samples, channels, height, width = images.shape
        batch = samples // len(scales)
        out = torch.empty_like(images)
        means = torch.empty(samples, groups, device=images.device)
        inverses = torch.empty_like(means)
        normalize[(samples,)](
            images,
            scales,
            shifts,
            out,
            means,
            inverses,
            batch,
            height * width,
            scales.stride(0),
            shifts.stride(0),
            tiny,
            CHANNELS=channels,
            GROUPS=groups,
            PIXELS=_stripe(channels, height * width),
            num_warps=_WARPS,
        )
        ctx.save_for_backward(images, scales, means, inverses)
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        images, scales, means, inverses = ctx.saved_tensors
        slope = slopes[0].contiguous(memory_format=torch.channels_last)
        samples, channels, height, width = images.shape
        clients = len(scales)
        out = torch.empty_like(images)
        by_scales = torch.empty(samples, channels, device=images.device)
        by_shifts = torch.empty_like(by_scales)
        normalize_back[(samples,)](
            slope,
            images,
            scales,
            means,
            inverses,
            out,
            by_scales,
            by_shifts,
            samples // clients,
            height * width,
            scales.stride(0),
            CHANNELS=channels,
            GROUPS=means.shape[1],
            PIXELS=_stripe(channels, height * width),
            num_warps=_WARPS,
        )
        by_scales, by_shifts = (part.view(clients, -1, channels).sum(1) for part in (by_scales, by_shifts))
        return out, None, by_scales, by_shifts, None


_WARPS = 4
_AT_ONCE = 4096
"""Values of one sample that a program of `normalize` reads at a time."""


def _stripe(channels: int, pixels: int) -> int:
    return int(min(max(1, _AT_ONCE // channels), triton.next_power_of_2(pixels)))
