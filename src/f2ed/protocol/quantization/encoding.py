"""Fixed point: updates of floats as integers modulo 2^b, and the mean of a shard back as floats.

The order is: refuse what is not finite, scale down to the clip norm, clip each coordinate, scale to integers, round at
random, add integer noise for differential privacy. `encode` does all of it.

A few words after the coordinates count what was clipped, so that the server learns the counts as it learns the update:
summed over the survivors, not client by client. With noise they stay zero: exact clip counts would reveal what the
noise hides.
"""

from math import ceil, inf, isfinite, sqrt
from typing import Annotated, Any, NamedTuple, final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from f2ed.core.errors import ConfigError, PeerError
from f2ed.core.spill import forget
from f2ed.protocol.primitives.crypto import Keystream, derive
from f2ed.protocol.primitives.discrete_gaussian import TAILS, discrete_gaussian, rounded_norm
from f2ed.protocol.primitives.ring import WIDTHS, Ring, Width, Words, largest_bits
from f2ed.protocol.quantization import clip_counters as counts
from f2ed.protocol.quantization.clip_counters import Clipped

__all__ = ["Decoded", "Encoding", "decode_mean", "encode", "quantize", "shorten"]

Update = npt.NDArray[np.floating[Any]]
Mean = npt.NDArray[np.float32]

_BLOCK = 1 << 16
_PIECE = 1 << 22
_RANDOM_BITS = 16
_FLOAT32_BITS = 21
"""Up to here float32 leaves a fraction to round at random; beyond, float64 is used."""
_SPARE_BITS = 2
_ATTEMPTS = 10
"""To find a rounding within the norm bound, which all but one in a million are."""


@final
class Encoding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an update becomes integers. Both clips may be generous; an infinite `clip_norm` never clips."""

    clip_value: Annotated[float, Meta(ge=1e-30, le=1e30)]
    """The largest magnitude of a coordinate; it becomes the integer 2^(bits-1) - 1."""
    clip_norm: Annotated[float, Meta(gt=0)] = inf
    bits: Annotated[int, Meta(ge=2, le=48)] = 20
    ring: Width | None = None
    """Bits of the sum; by default the smallest native word that cannot overflow and has two bits to spare, by which
    garbage is detected."""
    packed: bool = False
    """Whether that default may be 24 bits: three bytes on the wire, and fewer bits to spare."""
    deviation: Annotated[float, Meta(ge=0)] = 0.0
    """Standard deviation of the noise that each client adds, in integer steps; `noisy` computes it."""

    def __post_init__(self) -> None:
        """Hold values made in Python to the bounds that files are held to."""
        if not 1e-30 <= self.clip_value <= 1e30:
            raise ConfigError(
                f"a clip_value of {self.clip_value}; it must be positive and finite, about the largest coordinate"
            )
        if not self.clip_norm > 0:
            raise ConfigError(f"a clip_norm of {self.clip_norm}; it must be positive, or infinite for no limit")
        if not 2 <= self.bits <= 48:
            raise ConfigError(f"{self.bits} fixed-point bits; use from 2 to 48; 20 are usually enough")
        if self.ring is not None and self.ring not in WIDTHS:
            raise ConfigError(f"a ring of {self.ring} bits; there are rings of {WIDTHS}")
        if not 0 <= self.deviation < inf:
            raise ConfigError(f"noise of {self.deviation} steps; it must be finite, and 0 for none")

    @property
    def largest(self) -> int:
        """The integer that represents `clip_value`."""
        return int(2 ** (self.bits - 1) - 1)

    @property
    def unit(self) -> float:
        """The value of one integer step."""
        return self.clip_value / self.largest

    @property
    def reach(self) -> int:
        """The largest integer that a client may send: the clip value plus the largest noise."""
        return self.largest + (discrete_gaussian(self.deviation).largest if self.deviation else 0)

    def ring_for(self, clients: int) -> Ring:
        """Return a ring in which the sum of that many updates cannot wrap around, or refuse.

        The default leaves two bits to spare, so that a random word is in range with a chance of at most 1/4.
        """
        widths = [self.ring] if self.ring else [width for width in WIDTHS if self.packed or width != 24]
        values = 2 * clients * self.reach
        fitting = [width for width in widths if values < 2**width]
        if not fitting and self.deviation:
            raise ConfigError(
                f"{clients} terms of {self.bits} bits with noise of {self.deviation:.3g} steps overflow a "
                f"{widths[-1]}-bit sum; use fewer bits, less noise or a wider ring"
            )
        if not fitting:
            most = largest_bits(widths[-1], clients)
            raise ConfigError(
                f"{clients} terms of {self.bits} bits overflow a {widths[-1]}-bit sum; use at most {most} bits"
            )
        roomy = [width for width in fitting if self.packed or values << _SPARE_BITS < 2**width]
        return Ring((roomy or fitting)[0])

    def sensitivity(self, coordinates: int) -> float:
        """Return the largest L2 norm of an encoded update, in integer steps: what noise has to hide."""
        if not isfinite(self.clip_norm):
            raise ConfigError("noise without a clip_norm; set it to about the norm of an honest update")
        return rounded_norm(self.clip_norm / self.unit, coordinates)

    def noisy(self, multiplier: float, *, coordinates: int, carriers: int) -> "Encoding":
        """Return the encoding with so much noise per client that `carriers` of them add up to the multiplier.

        The sum over `carriers` clients then has noise of `multiplier` times the sensitivity, in each coordinate; over
        more of them, √(clients/carriers) times as much.
        """
        if not multiplier:
            return self
        deviation = multiplier * self.sensitivity(coordinates) / sqrt(carriers)
        discrete_gaussian(deviation)  # Raises if this noise cannot be sampled.
        return msgspec.structs.replace(self, deviation=deviation)

    def length(self, coordinates: int) -> int:
        """Return how many words carry an update: its coordinates and the counts of what was clipped."""
        return counts.length(coordinates, self.bits)


class Decoded(NamedTuple):
    """The mean of a shard, and the clip counts of its clients in total, which stay zero with noise."""

    mean: Mean
    clipped: Clipped


def encode(update: Update, encoding: Encoding, *, clients: int, key: bytes, weight: float = 1.0) -> Words:
    """Return the words that carry an update in a sum over `clients`.

    `key` seeds the rounding and the noise: 32 bytes of `os.urandom`, or of a simulation's named stream; never reuse it.
    `weight` is the public weight as a fraction of its cap, so that a weighted update keeps the range of the others.
    """
    factor = shorten(update, encoding)
    words, cut = quantize(update, factor, encoding, clients=clients, key=key, weight=weight)
    if not encoding.deviation:
        counts.write(words[len(update) :], Clipped(cut, int(factor < 1)), encoding.bits)
        return words
    longest = encoding.sensitivity(len(update))
    for attempt in range(1, _ATTEMPTS):
        if _norm(_signed(words)) <= longest:
            break
        again = derive(key, salt=b"", info=b"f2ed rounding %d" % attempt)
        words, _ = quantize(update, factor, encoding, clients=clients, key=again, weight=weight)
    else:
        raise ConfigError(f"rounding makes the update longer than {longest:.6g} steps; use more fixed-point bits")
    stream = Keystream(derive(key, salt=b"", info=b"f2ed noise"))
    discrete_gaussian(encoding.deviation).add(_signed(words)[: len(update)], stream)
    return words


def shorten(update: Update, encoding: Encoding) -> float:
    """Return the factor, at most 1, that scales an update to the clip norm; refuse one that is not finite."""
    if update.ndim != 1 or not np.issubdtype(update.dtype, np.floating):
        raise ConfigError(f"an update of {update.dtype} and shape {update.shape}; flatten it to one vector of floats")
    peak = _peak(update)
    if encoding.clip_norm == inf and isfinite(peak * peak * len(update)):
        return 1.0
    norm = _norm(update)
    if not isfinite(norm):
        bad = len(update) - int(np.isfinite(update).sum())
        found = f"{bad} coordinates that are NaN or infinite" if bad else "a norm beyond the range of float64"
        raise ConfigError(f"an update with {found}; it would invalidate the whole shard; train again or leave it out")
    return min(1.0, encoding.clip_norm / norm) if norm else 1.0


def quantize(
    update: Update, factor: float, encoding: Encoding, *, clients: int, key: bytes, weight: float = 1.0
) -> tuple[Words, int]:
    """Clip, scale and round factor · update; return the words, with room for the counts, and how many were clipped.

    Rounding is unbiased: up with the probability of the fraction, to 16 bits of AES-256-CTR per coordinate.
    """
    if not 0 < weight <= 1:
        raise ConfigError(f"a weight of {weight} times its cap; it must be above 0 and at most 1")
    ring = encoding.ring_for(clients)
    words = ring.zeros(encoding.length(len(update)))
    signed = _signed(words)
    real: type[np.floating[Any]] = np.float32 if encoding.bits <= _FLOAT32_BITS else np.float64
    scale, largest = real(factor / encoding.unit), encoding.largest
    stream = Keystream(key)
    lots = np.empty(min(_BLOCK, len(update)), "<u2")
    cut = 0
    for start in range(0, len(update), _BLOCK):
        with np.errstate(over="ignore"):  # What overflows is infinite, and clipped like any value that is too large.
            values = update[start : start + _BLOCK].astype(real) * scale
        if _peak(values) > largest:
            # Rounding moves a coordinate at the clip value by up to half a step.
            cut += int(np.count_nonzero(np.abs(values) > largest + 0.5))
            np.clip(values, -largest, largest, out=values)
        if weight < 1:  # Weighted after clipping, so that all clients are clipped at the same value.
            values *= real(weight)
        some = lots[: len(values)]
        stream.fill(some.view(np.uint8).data)
        _round(values, some, signed[start : start + len(values)])
    return words, cut


def decode_mean(
    total: Words,
    encoding: Encoding,
    *,
    clients: int,
    survivors: int,
    weight: float | None = None,
    out: Mean | None = None,
) -> Decoded:
    """Return the mean over the survivors from the sum of their words, or raise `PeerError` if no honest shard gives it.

    `weight` is the sum of the survivors' weights as fractions of their cap; by default each has 1. Random garbage
    leaves the range of `survivors` clipped updates almost surely in one of many coordinates, and a sum within the range
    must still respect the clip norm. The mean is written to `out` where given.
    """
    ring = encoding.ring_for(clients)
    coordinates = counts.coordinates_of(len(total), encoding.bits)
    noise = encoding.deviation * sqrt(survivors)
    signed, bound = ring.signed(total), survivors * encoding.largest + ceil(TAILS * noise)
    if (beyond := _farthest(signed)) > bound:
        raise PeerError(f"a sum with a coordinate of {beyond}; {survivors} clipped updates reach at most {bound}")
    mean = np.empty(coordinates, np.float32) if out is None else out
    factor = encoding.unit / (survivors if weight is None else weight)
    square = 0.0
    for start in range(0, coordinates, _BLOCK):
        block = signed[start : min(start + _BLOCK, coordinates)] * factor
        if encoding.clip_norm < inf:
            square += _square(block)
        mean[start : start + len(block)] = block
        forget(signed[start : start + len(block)])
        forget(mean[start : start + len(block)])
    # Rounding moves every term by less than one step; noise has about √d times its deviation.
    longest = encoding.clip_norm + sqrt(coordinates) * factor * survivors + factor * noise * (sqrt(coordinates) + TAILS)
    if sqrt(square) > longest * (1 + 1e-9):
        raise PeerError(
            f"a mean of norm {sqrt(square):.6g}; updates clipped to {encoding.clip_norm:g} reach {longest:.6g}"
        )
    if encoding.deviation:
        if signed[coordinates:].any():
            raise PeerError("clipped coordinates were counted in a sum with noise; honest clients count none there")
        return Decoded(mean, Clipped(0, 0))
    return Decoded(mean, counts.read(signed[coordinates:], coordinates, survivors, encoding.bits))


def _farthest(signed: npt.NDArray[np.signedinteger[Any]]) -> int:
    """Return the largest magnitude."""
    most = 0
    for start in range(0, len(signed), _PIECE):
        piece = signed[start : start + _PIECE]
        most = max(most, int(piece.max()), -int(piece.min()))
        forget(piece)
    return most


def _signed(words: Words) -> npt.NDArray[np.signedinteger[Any]]:
    """View the words as numbers that may be negative, before they are reduced to the ring."""
    return words.view(words.dtype.str.replace("u", "i"))


def _peak(values: Update) -> float:
    return max(float(values.max(initial=0)), -float(values.min(initial=0)))


def _norm(values: npt.NDArray[Any]) -> float:
    return sqrt(sum(_square(values[i : i + _BLOCK]) for i in range(0, len(values), _BLOCK)))


def _square(block: npt.NDArray[Any]) -> float:
    wide = block.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):
        # Not `dot`: on blocks this small the threads of a BLAS wait for each other longer than they work.
        return float(np.einsum("i,i->", wide, wide))


def _round(values: Update, lots: npt.NDArray[np.uint16], out: npt.NDArray[np.signedinteger[Any]]) -> None:
    """Write each value rounded down, or up if its fraction, which floats hold exactly, exceeds the random number."""
    down = np.floor(values)
    np.subtract(values, down, out=values)
    values *= 2**_RANDOM_BITS
    np.add(down, values > lots, out=down)
    out[:] = down
