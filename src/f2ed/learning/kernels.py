"""Triton kernels for convolutions of many clients at once; `in_triton` launches them and says how memory lies."""

import triton
import triton.language as tl

__all__ = ["convolve", "pool", "unpool", "weigh"]


@triton.jit
def convolve(
    padded,
    kernels,
    biases,
    out,
    pixels,
    height,
    width,
    client_stride,
    image_stride,
    row_stride,
    OUTPUTS: tl.constexpr,
    CHANNELS: tl.constexpr,
    SIDE: tl.constexpr,
    PIXELS: tl.constexpr,
    WIDE: tl.constexpr,
    TAPS: tl.constexpr,
    BIASED: tl.constexpr,
):
    """Multiply what the kernels see, `[pixels, k * k * in]`, which is never written down, by the kernels."""
    client = tl.program_id(1).to(tl.int64)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    inside = pixel < pixels
    column = tl.arange(0, WIDE)
    row = (pixel // width) % height
    corner = pixel // (height * width) * image_stride + row * row_stride + pixel % width * CHANNELS
    seen = padded + client * client_stride + corner
    mine = kernels + client * (SIDE * SIDE * CHANNELS * OUTPUTS)
    total = tl.zeros((PIXELS, WIDE), tl.float32)
    if SIDE * CHANNELS >= TAPS:
        for line in range(SIDE):
            for first in range(0, SIDE * CHANNELS, TAPS):
                tap = first + tl.arange(0, TAPS)
                real = tap < SIDE * CHANNELS
                left = tl.load(
                    seen[:, None] + (line * row_stride + tap)[None, :], mask=inside[:, None] & real[None, :], other=0.0
                )
                right = tl.load(
                    mine + (line * SIDE * CHANNELS + tap)[:, None] * OUTPUTS + column[None, :],
                    mask=real[:, None] & (column[None, :] < OUTPUTS),
                    other=0.0,
                )
                total = tl.dot(left, right, total, input_precision="ieee")
    else:
        for first in range(0, SIDE * SIDE * CHANNELS, TAPS):
            tap = first + tl.arange(0, TAPS)
            real = tap < SIDE * SIDE * CHANNELS
            offset = tap // (SIDE * CHANNELS) * row_stride + tap % (SIDE * CHANNELS)
            left = tl.load(seen[:, None] + offset[None, :], mask=inside[:, None] & real[None, :], other=0.0)
            right = tl.load(
                mine + tap[:, None] * OUTPUTS + column[None, :],
                mask=real[:, None] & (column[None, :] < OUTPUTS),
                other=0.0,
            )
            total = tl.dot(left, right, total, input_precision="ieee")
    if BIASED:
        total += tl.load(biases + client * OUTPUTS + column, mask=column < OUTPUTS, other=0.0)[None, :]
    place = out + client * pixels * OUTPUTS + pixel[:, None] * OUTPUTS + column[None, :]
    tl.store(place, total, mask=inside[:, None] & (column[None, :] < OUTPUTS))


@triton.jit
def weigh(
    padded,
    by_scores,
    out,
    pixels,
    height,
    width,
    each,
    corner,
    client_stride,
    image_stride,
    row_stride,
    slope_client_stride,
    slope_image_stride,
    slope_row_stride,
    OUTPUTS: tl.constexpr,
    CHANNELS: tl.constexpr,
    SIDE: tl.constexpr,
    SUMMED: tl.constexpr,
    WIDE: tl.constexpr,
    TAPS: tl.constexpr,
):
    """Sum, over some of the pixels, what some taps saw there times the slopes there."""
    client = tl.program_id(1).to(tl.int64)
    part = tl.program_id(2)
    tap = tl.program_id(0) * TAPS + tl.arange(0, TAPS)
    real = tap < SIDE * SIDE * CHANNELS
    offset = tap // (SIDE * CHANNELS) * row_stride + tap % (SIDE * CHANNELS)
    column = tl.arange(0, WIDE)
    seen = padded + client * client_stride
    slopes = by_scores + corner + client * slope_client_stride
    total = tl.zeros((TAPS, WIDE), tl.float32)
    last = tl.minimum(pixels, (part + 1) * each)
    for first in range(part * each, last, SUMMED):
        pixel = first + tl.arange(0, SUMMED)
        inside = pixel < last
        image = pixel // (height * width)
        row = (pixel // width) % height
        here = image * image_stride + row * row_stride + pixel % width * CHANNELS
        there = image * slope_image_stride + row * slope_row_stride + pixel % width * OUTPUTS
        # Read along the taps, which lie side by side in memory, then turned.
        left = tl.load(seen + here[:, None] + offset[None, :], mask=inside[:, None] & real[None, :], other=0.0)
        right = tl.load(
            slopes + there[:, None] + column[None, :], mask=inside[:, None] & (column[None, :] < OUTPUTS), other=0.0
        )
        total = tl.dot(tl.trans(left), right, total, input_precision="ieee")
    place = (part * tl.num_programs(1) + client) * (SIDE * SIDE * CHANNELS * OUTPUTS) + tap[:, None] * OUTPUTS
    tl.store(out + place + column[None, :], total, mask=real[:, None] & (column[None, :] < OUTPUTS))


@triton.jit
def pool(
    scores,
    out,
    winners,
    count,
    high,
    wide,
    height,
    width,
    corner,
    image_stride,
    row_stride,
    OUTPUTS: tl.constexpr,
    STRIPE: tl.constexpr,
):
    """Keep the largest of four where it is positive, and remember which it was."""
    at = tl.program_id(0).to(tl.int64) * STRIPE + tl.arange(0, STRIPE)
    inside = at < count
    channel = at % OUTPUTS
    column = at // OUTPUTS % wide
    row = at // (OUTPUTS * wide) % high
    image = at // (OUTPUTS * wide * high)
    first = scores + ((image * height + 2 * row) * width + 2 * column) * OUTPUTS + channel
    best = tl.load(first, mask=inside, other=0.0)
    winner = tl.zeros((STRIPE,), tl.int32)
    for other in tl.static_range(1, 4):
        value = tl.load(first + (other // 2) * width * OUTPUTS + (other % 2) * OUTPUTS, mask=inside, other=0.0)
        # A number that is none wins, as it does in torch, so that it is not lost to sight.
        wins = (value > best) | (value != value)  # noqa: PLR0124  so it is told in Triton
        best = tl.where(wins, value, best)
        winner = tl.where(wins, other, winner)
    dead = best <= 0
    place = out + corner + image * image_stride + row * row_stride + column * OUTPUTS + channel
    tl.store(place, tl.where(dead, 0.0, best), mask=inside)
    tl.store(winners + at, tl.where(dead, 4, winner).to(tl.uint8), mask=inside)


@triton.jit
def unpool(
    slope,
    winners,
    out,
    count,
    high,
    wide,
    corner,
    slope_image_stride,
    slope_row_stride,
    slope_column_stride,
    slope_channel_stride,
    image_stride,
    row_stride,
    OUTPUTS: tl.constexpr,
    STRIPE: tl.constexpr,
):
    """Hand each slope to the number that won."""
    at = tl.program_id(0).to(tl.int64) * STRIPE + tl.arange(0, STRIPE)
    inside = at < count
    channel = at % OUTPUTS
    column = at // OUTPUTS % wide
    row = at // (OUTPUTS * wide) % high
    image = at // (OUTPUTS * wide * high)
    source = image * slope_image_stride + row * slope_row_stride
    value = tl.load(
        slope + source + column * slope_column_stride + channel * slope_channel_stride, mask=inside, other=0.0
    )
    winner = tl.load(winners + at, mask=inside, other=4).to(tl.int32)
    first = out + corner + image * image_stride + 2 * row * row_stride + 2 * column * OUTPUTS + channel
    for other in tl.static_range(4):
        place = first + (other // 2) * row_stride + (other % 2) * OUTPUTS
        tl.store(place, tl.where(winner == other, value, 0.0), mask=inside)
