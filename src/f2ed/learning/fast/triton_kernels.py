"""Triton kernels that convolve for many clients at once; `triton_convolutions` launches them and lays memory out.

A cell is a pixel of the pooled image; it covers four pixels of the convolved image.
"""

import triton
import triton.language as tl

__all__ = ["convolve", "convolve_and_pool", "unpool", "weigh"]


@triton.jit
def _offsets(tap, row_stride, CHANNELS: tl.constexpr, SIDE: tl.constexpr):
    """Return the memory offsets of a kernel's taps, relative to its corner."""
    return tap // (SIDE * CHANNELS) * row_stride + tap % (SIDE * CHANNELS)


@triton.jit
def _place(number, high, wide, image_stride, row_stride, column_stride):
    """Return the memory offset of a cell or pixel, numbered through all images of a client."""
    return number // (wide * high) * image_stride + number // wide % high * row_stride + number % wide * column_stride


@triton.jit
def convolve_and_pool(
    padded,
    kernels,
    biases,
    out,
    winners,
    cells,
    high,
    wide,
    client_stride,
    image_stride,
    row_stride,
    corner,
    out_client_stride,
    out_image_stride,
    out_row_stride,
    CHANNELS: tl.constexpr,
    SIDE: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    CELLS: tl.constexpr,
    TAPS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Convolve, pool and apply ReLU without storing the convolved image.

    `winners` records which of the four pixels was the largest, or 4 where ReLU is zero.
    """
    client = tl.program_id(1).to(tl.int64)
    cell = tl.program_id(0) * CELLS + tl.arange(0, CELLS)
    inside = cell < cells
    # The last programs repeat the last cell, which is cheaper than masking every step.
    mine = tl.minimum(cell, cells - 1)
    output = tl.arange(0, OUTPUTS)
    seen = padded + client * client_stride + _place(mine, high, wide, image_stride, 2 * row_stride, 2 * CHANNELS)
    kernel = kernels + client * (ROWS * OUTPUTS)
    first = tl.zeros((CELLS, OUTPUTS), tl.float32)
    second = tl.zeros((CELLS, OUTPUTS), tl.float32)
    third = tl.zeros((CELLS, OUTPUTS), tl.float32)
    fourth = tl.zeros((CELLS, OUTPUTS), tl.float32)
    for start in range(0, ROWS, TAPS):
        tap = start + tl.arange(0, TAPS)
        real = (tap < SIDE * SIDE * CHANNELS)[None, :]
        here = seen[:, None] + _offsets(tap, row_stride, CHANNELS, SIDE)[None, :]
        right = tl.load(kernel + tap[:, None] * OUTPUTS + output[None, :])
        left = tl.load(here, mask=real, other=0.0)
        first = tl.dot(left, right, first, input_precision=PRECISION)
        left = tl.load(here + CHANNELS, mask=real, other=0.0)
        second = tl.dot(left, right, second, input_precision=PRECISION)
        left = tl.load(here + row_stride, mask=real, other=0.0)
        third = tl.dot(left, right, third, input_precision=PRECISION)
        left = tl.load(here + row_stride + CHANNELS, mask=real, other=0.0)
        fourth = tl.dot(left, right, fourth, input_precision=PRECISION)
    best, winner = first, tl.zeros((CELLS, OUTPUTS), tl.int32)
    best, winner = _larger(best, winner, second, 1)
    best, winner = _larger(best, winner, third, 2)
    best, winner = _larger(best, winner, fourth, 3)
    best += tl.load(biases + client * OUTPUTS + output)[None, :]
    dead = best <= 0
    place = corner + client * out_client_stride + _place(mine, high, wide, out_image_stride, out_row_stride, OUTPUTS)
    tl.store(out + place[:, None] + output[None, :], tl.where(dead, 0.0, best), mask=inside[:, None])
    place = (client * cells + mine) * OUTPUTS
    tl.store(winners + place[:, None] + output[None, :], tl.where(dead, 4, winner).to(tl.uint8), mask=inside[:, None])


@triton.jit
def _larger(best, winner, value, number: tl.constexpr):
    """Keep the larger value; NaN propagates, as in torch."""
    wins = (value > best) | (value != value)  # noqa: PLR0124  this is how Triton tests for NaN
    return tl.where(wins, value, best), tl.where(wins, number, winner)


@triton.jit
def convolve(
    padded,
    kernels,
    out,
    pixels,
    height,
    width,
    client_stride,
    image_stride,
    row_stride,
    CHANNELS: tl.constexpr,
    SIDE: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    PIXELS: tl.constexpr,
    TAPS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Convolve, without pooling or ReLU."""
    client = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    mine = tl.minimum(pixel, pixels - 1)
    output = tl.arange(0, OUTPUTS)
    seen = padded + client * client_stride + _place(mine, height, width, image_stride, row_stride, CHANNELS)
    kernel = kernels + client * (ROWS * OUTPUTS)
    total = tl.zeros((PIXELS, OUTPUTS), tl.float32)
    for start in range(0, ROWS, TAPS):
        tap = start + tl.arange(0, TAPS)
        here = seen[:, None] + _offsets(tap, row_stride, CHANNELS, SIDE)[None, :]
        left = tl.load(here, mask=(tap < SIDE * SIDE * CHANNELS)[None, :], other=0.0)
        right = tl.load(kernel + tap[:, None] * OUTPUTS + output[None, :])
        total = tl.dot(left, right, total, input_precision=PRECISION)
    place = (client * pixels + mine) * OUTPUTS
    tl.store(out + place[:, None] + output[None, :], total, mask=(pixel < pixels)[:, None])


@triton.jit
def weigh(
    padded,
    slopes,
    winners,
    by_kernels,
    by_biases,
    cells,
    high,
    wide,
    each,
    client_stride,
    image_stride,
    row_stride,
    CHANNELS: tl.constexpr,
    SIDE: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    CELLS: tl.constexpr,
    TAPS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Sum, over some of the cells, the inputs of some taps at each cell's winner times the cell's gradient."""
    client = tl.program_id(1).to(tl.int64)
    part = tl.program_id(2)
    tap = tl.program_id(0) * TAPS + tl.arange(0, TAPS)
    offset, real = _offsets(tap, row_stride, CHANNELS, SIDE), (tap < SIDE * SIDE * CHANNELS)[None, :]
    output = tl.arange(0, OUTPUTS)
    seen = padded + client * client_stride
    total = tl.zeros((OUTPUTS, TAPS), tl.float32)
    sums = tl.zeros((OUTPUTS,), tl.float32)
    last = tl.minimum(cells, (part + 1) * each)
    for start in range(part * each, last, CELLS):
        cell = start + tl.arange(0, CELLS)
        inside = (cell < last)[:, None]
        mine = tl.minimum(cell, cells - 1)
        place = ((client * cells + mine) * OUTPUTS)[:, None] + output[None, :]
        slope = tl.load(slopes + place, mask=inside, other=0.0)
        winner = tl.load(winners + place, mask=inside, other=4).to(tl.int32)
        corner = _place(mine, high, wide, image_stride, 2 * row_stride, 2 * CHANNELS)
        here = seen + corner[:, None] + offset[None, :]
        sums += tl.sum(tl.where(winner < 4, slope, 0.0), 0)
        for pixel in tl.static_range(4):
            left = tl.load(here + (pixel // 2) * row_stride + (pixel % 2) * CHANNELS, mask=real, other=0.0)
            right = tl.where(winner == pixel, slope, 0.0)
            # The smaller operand is transposed.
            total = tl.dot(tl.trans(right), left, total, input_precision=PRECISION)
    whose = part * tl.num_programs(1) + client
    place = (whose * ROWS + tap) * OUTPUTS
    tl.store(by_kernels + place[:, None] + output[None, :], tl.trans(total))
    if tl.program_id(0) == 0:
        tl.store(by_biases + whose * OUTPUTS + output, sums)


@triton.jit
def unpool(
    slopes,
    winners,
    out,
    count,
    high,
    wide,
    corner,
    image_stride,
    row_stride,
    OUTPUTS: tl.constexpr,
    STRIPE: tl.constexpr,
):
    """Pass each cell's gradient to the pixel that won."""
    at = tl.program_id(0).to(tl.int64) * STRIPE + tl.arange(0, STRIPE)
    inside = at < count
    slope = tl.load(slopes + at, mask=inside, other=0.0)
    winner = tl.load(winners + at, mask=inside, other=4).to(tl.int32)
    first = out + corner + _place(at // OUTPUTS, high, wide, image_stride, 2 * row_stride, 2 * OUTPUTS) + at % OUTPUTS
    for pixel in tl.static_range(4):
        place = first + (pixel // 2) * row_stride + (pixel % 2) * OUTPUTS
        tl.store(place, tl.where(winner == pixel, slope, 0.0), mask=inside)
