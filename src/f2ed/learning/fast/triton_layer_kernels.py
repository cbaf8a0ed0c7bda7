"""Triton kernels for the layers of residual networks, for many clients at once; `triton_layers` launches them.

Activations are `[n, b, height, width, channels]`; every client has kernels of its own. Convolutions are matrix products
of which one factor, the unfolded image, is never stored.
"""

import triton
import triton.language as tl

__all__ = ["convolve", "normalize", "normalize_back", "weigh"]


@triton.jit
def convolve(
    images,
    kernels,
    out,
    pixels,
    height,
    width,
    out_height,
    out_width,
    image_client,
    kernel_client,
    kernel_tap,
    kernel_in,
    kernel_out,
    out_client,
    CHANNELS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    SIDE: tl.constexpr,
    STRIDE: tl.constexpr,
    EDGE: tl.constexpr,
    BACK: tl.constexpr,
    PIXELS: tl.constexpr,
    COLUMNS: tl.constexpr,
    INNER: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Convolve, or with BACK send the gradient by the output back to the input.

    The way back treats the pixels that leave the same remainder after division by the stride separately: each such
    class sees its own taps.
    """
    client = tl.program_id(2).to(tl.int64)
    output = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    if BACK:
        kind = tl.program_id(1) % (STRIDE * STRIDE)
        block = tl.program_id(1) // (STRIDE * STRIDE)
        down, right = kind // STRIDE, kind % STRIDE
        high, wide = (out_height + STRIDE - 1) // STRIDE, (out_width + STRIDE - 1) // STRIDE
    else:
        block = tl.program_id(1)
        down, right = 0, 0
        high, wide = out_height, out_width
    pixel = block * PIXELS + tl.arange(0, PIXELS)
    image = pixel // (high * wide)
    row, column = pixel // wide % high, pixel % wide
    if BACK:
        row, column = row * STRIDE + down, column * STRIDE + right
        inside = (pixel < pixels) & (row < out_height) & (column < out_width)
        first_row, first_column = (down + EDGE) % STRIDE, (right + EDGE) % STRIDE
        rows, columns = (SIDE - first_row + STRIDE - 1) // STRIDE, (SIDE - first_column + STRIDE - 1) // STRIDE
    else:
        inside = pixel < pixels
        first_row, first_column = 0, 0
        rows, columns = SIDE, SIDE
    pieces: tl.constexpr = (CHANNELS + INNER - 1) // INNER
    images += client * image_client
    kernels += client * kernel_client
    inner = tl.arange(0, INNER)
    total = tl.zeros((PIXELS, COLUMNS), tl.float32)
    for number in range(rows * columns * pieces):
        tap = number // pieces
        channel = number % pieces * INNER + inner
        if BACK:
            tap_row, tap_column = first_row + tap // columns * STRIDE, first_column + tap % columns * STRIDE
            from_row, from_column = (row + EDGE - tap_row) // STRIDE, (column + EDGE - tap_column) // STRIDE
            seen = inside & (row + EDGE >= tap_row) & (column + EDGE >= tap_column)
            seen = seen & (from_row < height) & (from_column < width)
        else:
            tap_row, tap_column = tap // SIDE, tap % SIDE
            from_row, from_column = row * STRIDE + tap_row - EDGE, column * STRIDE + tap_column - EDGE
            seen = inside & (from_row >= 0) & (from_row < height) & (from_column >= 0) & (from_column < width)
        place = ((image * height + from_row) * width + from_column) * CHANNELS
        if CHANNELS % INNER == 0:
            left = tl.load(images + place[:, None] + channel[None, :], mask=seen[:, None], other=0.0)
        else:
            real = seen[:, None] & (channel < CHANNELS)[None, :]
            left = tl.load(images + place[:, None] + channel[None, :], mask=real, other=0.0)
        kernel = kernels + (tap_row * SIDE + tap_column) * kernel_tap
        kernel = kernel + channel[:, None] * kernel_in + output[None, :] * kernel_out
        if CHANNELS % INNER == 0 and OUTPUTS % COLUMNS == 0:
            weights = tl.load(kernel)
        else:
            weights = tl.load(kernel, mask=(channel < CHANNELS)[:, None] & (output < OUTPUTS)[None, :], other=0.0)
        total = tl.dot(left, weights, total, input_precision=PRECISION)
    place = ((image * out_height + row) * out_width + column) * OUTPUTS
    here = out + client * out_client + place[:, None] + output[None, :]
    tl.store(here, total.to(out.dtype.element_ty), mask=inside[:, None] & (output < OUTPUTS)[None, :])


@triton.jit
def weigh(
    images,
    slopes,
    out,
    pixels,
    each,
    height,
    width,
    high,
    wide,
    image_client,
    slope_client,
    CHANNELS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    SIDE: tl.constexpr,
    STRIDE: tl.constexpr,
    EDGE: tl.constexpr,
    PIXELS: tl.constexpr,
    ROWS: tl.constexpr,
    TAPS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Sum, over some of the pixels, each output's gradient times what some of the kernel's taps see there.

    `out` is `[parts, n, out, k * k * in]`, of which `parts` are still to be added up.
    """
    ALL: tl.constexpr = SIDE * SIDE * CHANNELS
    blocks: tl.constexpr = (ALL + TAPS - 1) // TAPS
    client = tl.program_id(2).to(tl.int64)
    part = tl.program_id(1)
    output = tl.program_id(0) // blocks * ROWS + tl.arange(0, ROWS)
    tap = tl.program_id(0) % blocks * TAPS + tl.arange(0, TAPS)
    tap_row, tap_column = tap // (SIDE * CHANNELS), tap // CHANNELS % SIDE
    offset = ((tap_row - EDGE) * width + tap_column - EDGE) * CHANNELS + tap % CHANNELS
    images += client * image_client
    slopes += client * slope_client
    total = tl.zeros((ROWS, TAPS), tl.float32)
    last = tl.minimum(pixels, (part + 1) * each)
    for start in range(part * each, last, PIXELS):
        pixel = start + tl.arange(0, PIXELS)
        inside = pixel < last
        row, column = pixel // wide % high * STRIDE, pixel % wide * STRIDE
        place = ((pixel // (wide * high) * height + row) * width + column) * CHANNELS
        left = inside[:, None] & (output < OUTPUTS)[None, :]
        slope = tl.load(slopes + pixel[:, None] * OUTPUTS + output[None, :], mask=left, other=0.0)
        from_row, from_column = row[:, None] + (tap_row - EDGE)[None, :], column[:, None] + (tap_column - EDGE)[None, :]
        seen = inside[:, None] & (tap < ALL)[None, :] & (from_row >= 0) & (from_row < height)
        seen = seen & (from_column >= 0) & (from_column < width)
        image = tl.load(images + place[:, None] + offset[None, :], mask=seen, other=0.0)
        total = tl.dot(tl.trans(slope), image, total, input_precision=PRECISION)
    here = out + (part * tl.num_programs(2) + client) * (OUTPUTS * ALL)
    real = (output < OUTPUTS)[:, None] & (tap < ALL)[None, :]
    tl.store(here + output[:, None] * ALL + tap[None, :], total, mask=real)


@triton.jit
def _spread(values, CHANNELS: tl.constexpr, GROUPS: tl.constexpr):
    """Return `[groups]` as `[channels]`."""
    return tl.reshape(tl.broadcast_to(values[:, None], (GROUPS, CHANNELS // GROUPS)), (CHANNELS,))


@triton.jit
def _gather(values, CHANNELS: tl.constexpr, GROUPS: tl.constexpr):
    """Return the sums `[groups]` of `[channels]`."""
    return tl.sum(tl.reshape(values, (GROUPS, CHANNELS // GROUPS)), axis=1)


@triton.jit
def normalize(
    images,
    scales,
    shifts,
    out,
    means,
    inverses,
    batch,
    pixels,
    scale_client,
    shift_client,
    tiny,
    CHANNELS: tl.constexpr,
    GROUPS: tl.constexpr,
    PIXELS: tl.constexpr,
):
    """Group normalization of one sample: over its pixels and the channels of each group."""
    sample = tl.program_id(0).to(tl.int64)
    client = sample // batch
    channel = tl.arange(0, CHANNELS)
    images += sample * pixels * CHANNELS
    out += sample * pixels * CHANNELS
    sums = tl.zeros((CHANNELS,), tl.float32)
    for start in range(0, pixels, PIXELS):
        pixel = start + tl.arange(0, PIXELS)
        here = pixel[:, None] * CHANNELS + channel[None, :]
        sums += tl.sum(tl.load(images + here, mask=(pixel < pixels)[:, None], other=0.0).to(tl.float32), axis=0)
    count = pixels * (CHANNELS // GROUPS)
    mean = _gather(sums, CHANNELS, GROUPS) / count
    center = _spread(mean, CHANNELS, GROUPS)
    squares = tl.zeros((CHANNELS,), tl.float32)
    for start in range(0, pixels, PIXELS):
        pixel = start + tl.arange(0, PIXELS)
        here = pixel[:, None] * CHANNELS + channel[None, :]
        inside = (pixel < pixels)[:, None]
        away = tl.load(images + here, mask=inside, other=0.0).to(tl.float32) - center[None, :]
        squares += tl.sum(tl.where(inside, away * away, 0.0), axis=0)
    inverse = 1 / tl.sqrt(_gather(squares, CHANNELS, GROUPS) / count + tiny)
    group = tl.arange(0, GROUPS)
    tl.store(means + sample * GROUPS + group, mean)
    tl.store(inverses + sample * GROUPS + group, inverse)
    scale = tl.load(scales + client * scale_client + channel) * _spread(inverse, CHANNELS, GROUPS)
    shift = tl.load(shifts + client * shift_client + channel) - center * scale
    for start in range(0, pixels, PIXELS):
        pixel = start + tl.arange(0, PIXELS)
        here = pixel[:, None] * CHANNELS + channel[None, :]
        inside = (pixel < pixels)[:, None]
        value = tl.load(images + here, mask=inside, other=0.0).to(tl.float32) * scale[None, :] + shift[None, :]
        tl.store(out + here, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def normalize_back(
    slopes,
    images,
    scales,
    means,
    inverses,
    out,
    by_scales,
    by_shifts,
    batch,
    pixels,
    scale_client,
    CHANNELS: tl.constexpr,
    GROUPS: tl.constexpr,
    PIXELS: tl.constexpr,
):
    """Return the gradients of `normalize` by its input and, for each sample, by scales and shifts."""
    sample = tl.program_id(0).to(tl.int64)
    client = sample // batch
    channel, group = tl.arange(0, CHANNELS), tl.arange(0, GROUPS)
    images += sample * pixels * CHANNELS
    slopes += sample * pixels * CHANNELS
    out += sample * pixels * CHANNELS
    center = _spread(tl.load(means + sample * GROUPS + group), CHANNELS, GROUPS)
    inverse = _spread(tl.load(inverses + sample * GROUPS + group), CHANNELS, GROUPS)
    by_shift = tl.zeros((CHANNELS,), tl.float32)
    by_scale = tl.zeros((CHANNELS,), tl.float32)
    for start in range(0, pixels, PIXELS):
        pixel = start + tl.arange(0, PIXELS)
        here = pixel[:, None] * CHANNELS + channel[None, :]
        inside = (pixel < pixels)[:, None]
        slope = tl.load(slopes + here, mask=inside, other=0.0).to(tl.float32)
        unit = (tl.load(images + here, mask=inside, other=0.0).to(tl.float32) - center[None, :]) * inverse[None, :]
        by_shift += tl.sum(slope, axis=0)
        by_scale += tl.sum(slope * unit, axis=0)
    tl.store(by_shifts + sample * CHANNELS + channel, by_shift)
    tl.store(by_scales + sample * CHANNELS + channel, by_scale)
    scale = tl.load(scales + client * scale_client + channel)
    count = pixels * (CHANNELS // GROUPS)
    flat = _spread(_gather(by_shift * scale, CHANNELS, GROUPS) / count, CHANNELS, GROUPS)
    tilt = _spread(_gather(by_scale * scale, CHANNELS, GROUPS) / count, CHANNELS, GROUPS)
    for start in range(0, pixels, PIXELS):
        pixel = start + tl.arange(0, PIXELS)
        here = pixel[:, None] * CHANNELS + channel[None, :]
        inside = (pixel < pixels)[:, None]
        slope = tl.load(slopes + here, mask=inside, other=0.0).to(tl.float32)
        unit = (tl.load(images + here, mask=inside, other=0.0).to(tl.float32) - center[None, :]) * inverse[None, :]
        value = (slope * scale[None, :] - flat[None, :] - unit * tilt[None, :]) * inverse[None, :]
        tl.store(out + here, value.to(out.dtype.element_ty), mask=inside)
