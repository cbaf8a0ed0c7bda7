"""The algebra of a round on sketches: shares of the Gram matrix, range tests and the check that verifies both.

With E, A and B the sketches of the masked rows and of the two masks, (E + A + B)(E + A + B)' is the sum of
  server: B E' + E B'        mixer: E E' + E A' + A E'        judge: (A + B)(A + B)'.
Row 0 is random and known to nobody as a whole: E from server and mixer, A from mixer and judge, B from server and
judge. It hides the random combination of rows that verifies the matrix.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from f2ed.core.errors import PeerError
from f2ed.protocol.helpers.field import (
    Elements,
    P,
    add,
    combination,
    elements,
    expand,
    fold_top,
    from_integers,
    gram,
    pack,
    product,
    reduce,
    small_product,
    subtract,
    unpack,
)
from f2ed.protocol.helpers.keys import PairKeys, mask_key
from f2ed.protocol.helpers.sketch import Fill, Sketch, ternary
from f2ed.protocol.helpers.terms import MIXER, SERVER, Role, Terms
from f2ed.protocol.primitives.crypto import Keystream
from f2ed.protocol.sharding import ClientId

__all__ = [
    "SMUDGE",
    "Copy",
    "GramShare",
    "combine_rows",
    "combined_mask",
    "expanded",
    "judge_gram",
    "mixer_share",
    "random_row",
    "read_copy",
    "read_share",
    "server_share",
    "sketch_of",
    "smudge",
    "sum_masks",
    "tested",
    "verified",
    "write_copy",
    "write_share",
]

SMUDGE = 1 << 26
"""Server and mixer add a common random number up to this to every test value, which hides it from the judge."""
_CHUNK = 1 << 14


class GramShare(NamedTuple):
    """A party's share of the Gram matrix, with row 0, and the smudged test values of the masked rows."""

    matrix: Elements
    tests: Elements


class Copy(NamedTuple):
    """One of two copies that must be equal: the combined masked rows, and the combined mask of row 0."""

    row: Elements
    mask: Elements


def sketch_of(terms: Terms, seed: bytes) -> Sketch:
    """Return the sketch of a round."""
    return Sketch(seed, coordinates=terms.coordinates, columns=terms.sketch, foldings=terms.foldings)


def expanded(context: bytes, seeds: Sequence[tuple[ClientId, Sequence[tuple[Role, bytes]]]]) -> Fill:
    """Return rows that are sums of expanded seeds, to be sketched."""
    streams = [[Keystream(mask_key(context, client, *each)) for each in several] for client, several in seeds]

    def fill(rows: slice, columns: slice, out: Elements) -> None:
        part, scratch = np.empty((2, columns.stop - columns.start), np.uint64)
        for place, row in enumerate(range(rows.start, rows.stop)):
            first, *others = streams[row]
            expand(first, out[place])
            for other in others:
                expand(other, part)
                out[place] += part
                fold_top(out[place], scratch)

    return fill


def random_row(pairs: PairKeys, other: Role, columns: int) -> Elements:
    """Return the part of row 0 that two parties share."""
    return elements(pairs.common(other, b"row 0"), columns)


def server_share(masked: Elements, mask: Elements, terms: Terms, pairs: PairKeys, seed: bytes) -> GramShare:
    """Return the server's share; both matrices [n + 1, columns] have row 0 first."""
    half = product(mask, masked)
    matrix = add(add(half, half.T), _zeta(pairs, MIXER, len(masked)))
    matrix[0] = add(matrix[0], _tau(pairs, MIXER, len(masked)))
    return GramShare(matrix, _smudged_tests(masked, terms, pairs, MIXER, seed))


def mixer_share(masked: Elements, mask: Elements, terms: Terms, pairs: PairKeys, seed: bytes) -> GramShare:
    """Return the mixer's share."""
    # E E' + E A' + A E' is Y + Y' for Y = E (E/2 + A)'.
    half = product(masked, add(_halved(masked), mask))
    matrix = subtract(add(half, half.T), _zeta(pairs, SERVER, len(masked)))
    return GramShare(matrix, _smudged_tests(masked, terms, pairs, SERVER, seed))


def judge_gram(server: GramShare, mixer: GramShare, masks: Elements) -> Elements:
    """Return the Gram matrix, whose row 0 is still masked; entries [i, j] are for i <= j."""
    return add(add(server.matrix, mixer.matrix), gram(masks))


def tested(masks: Elements, tests: Elements, terms: Terms, seed: bytes) -> Elements:
    """Return the smudged test values of the rows, [n, tests], from those of their masked parts."""
    return add(tests, small_product(masks[1:], ternary(seed, terms.tests, terms.columns)))


def combine_rows(weights: Elements, rows: Elements) -> Elements:
    """Return row 0 plus the combination of the others."""
    return combination(_with_row_0(weights), rows)


def combined_mask(weights: Elements, pairs: PairKeys, other: Role) -> Elements:
    """Return the part of the mask of row 0 that is in the combination of the matrix, [1]."""
    tau = _tau(pairs, other, len(weights) + 1)
    double = _with_row_0(add(weights, weights))
    return combination(double, tau[:, None])


def verified(matrix: Elements, mask: Elements, weights: Elements, combined: Elements) -> None:
    """Raise `PeerError` unless the squared length of the combined rows is what the matrix says.

    For a matrix with any wrong entry it holds with a chance of at most 2/p over the random weights.
    """
    full = np.triu(matrix) + np.triu(matrix, 1).T
    factors = _with_row_0(weights)
    claimed = subtract(combination(combination(factors, full), factors[:, None]), mask)
    if not np.array_equal(claimed, gram(combined[None])[0]):
        raise PeerError("the Gram matrix does not verify: the server or the mixer lied about its share")


def sum_masks(context: bytes, seeds: Sequence[tuple[ClientId, Role, bytes]], length: int) -> Elements:
    """Return the sum of expanded seeds, [length], reduced."""
    streams = [Keystream(mask_key(context, client, role, seed)) for client, role, seed in seeds]
    total = np.zeros(length, np.uint64)
    part, scratch = np.empty((2, min(_CHUNK, length)), np.uint64)
    for start in range(0, length, _CHUNK):
        block = total[start : start + _CHUNK]
        mask = part[: len(block)]
        for number, stream in enumerate(streams):
            expand(stream, mask)
            block += mask
            if number % 7 == 6:
                fold_top(block, scratch[: len(block)])
        block[:] = reduce(block)
    return total


def write_share(share: GramShare) -> bytes:
    """Return one triangle of the matrix, and the test values, as bytes."""
    return msgspec.msgpack.encode((pack(share.matrix[np.triu_indices(len(share.matrix))]), pack(share.tests)))


def read_share(data: bytes, rows: int, tests: int) -> GramShare:
    """Read a share of so many rows, with row 0, or raise `PeerError`."""
    triangle, values = _pair(data)
    matrix = np.zeros((rows, rows), np.uint64)
    matrix[np.triu_indices(rows)] = unpack(triangle, rows * (rows + 1) // 2)
    return GramShare(matrix, unpack(values, rows - 1, tests))


def write_copy(copy: Copy) -> bytes:
    """Return the copy as bytes."""
    return msgspec.msgpack.encode((pack(copy.row), pack(copy.mask)))


def read_copy(data: bytes, columns: int) -> Copy:
    """Read a copy, or raise `PeerError`."""
    row, mask = _pair(data)
    return Copy(unpack(row, columns), unpack(mask, 1))


def _pair(data: bytes) -> tuple[bytes, bytes]:
    try:
        return msgspec.msgpack.decode(data, type=tuple[bytes, bytes])
    except msgspec.DecodeError as error:
        raise PeerError(f"sealed values that cannot be read: {error}") from None


def _smudged_tests(masked: Elements, terms: Terms, pairs: PairKeys, other: Role, seed: bytes) -> Elements:
    values = small_product(masked[1:], ternary(seed, terms.tests, terms.columns))
    return add(values, smudge(pairs.common(other, b"smudge"), values.shape))


def smudge(key: bytes, shape: tuple[int, ...]) -> Elements:
    """Return uniform numbers from -SMUDGE to SMUDGE - 1, as elements."""
    drawn = elements(key, int(np.prod(shape))) & np.uint64(2 * SMUDGE - 1)
    return from_integers(drawn.astype(np.int64) - SMUDGE).reshape(shape)


def _zeta(pairs: PairKeys, other: Role, rows: int) -> Elements:
    return elements(pairs.common(other, b"zeta"), rows * rows).reshape(rows, rows)


def _tau(pairs: PairKeys, other: Role, rows: int) -> Elements:
    return elements(pairs.common(other, b"tau"), rows)


def _with_row_0(weights: Elements) -> Elements:
    return np.concatenate([np.ones(1, np.uint64), weights])


def _halved(words: Elements) -> Elements:
    """Return words / 2: a shift, after p was added to the odd ones."""
    odd = words & np.uint64(1)
    return (words + odd * np.uint64(P)) >> np.uint64(1)
