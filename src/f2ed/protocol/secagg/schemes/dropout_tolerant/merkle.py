"""A Merkle tree over the parcels of one dealer: one signature covers all, and each recipient can check its own."""

from collections.abc import Sequence

from f2ed.core.errors import PeerError
from f2ed.protocol.primitives.crypto import digest

__all__ = ["paths_of", "root_from", "root_of"]


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root over one or more digests."""
    level = list(leaves)
    while len(level) > 1:
        level = _above(level)
    return level[0]


def paths_of(leaves: Sequence[bytes]) -> list[tuple[bytes, ...]]:
    """Return, for every leaf, the digests beside its way to the root; the tree is computed once for all."""
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        levels.append(_above(levels[-1]))
    return [
        tuple(level[at ^ 1] for height, level in enumerate(levels[:-1]) if ((at := place >> height) ^ 1) < len(level))
        for place in range(len(leaves))
    ]


def root_from(leaf: bytes, place: int, count: int, path: Sequence[bytes]) -> bytes:
    """Return the root over `count` leaves that a leaf at this place and its path lead to."""
    node, rest = leaf, list(path)
    while count > 1:
        if (place ^ 1) < count:
            if not rest:
                raise PeerError("a path that ends before the root of the parcels")
            beside = rest.pop(0)
            node = _node(beside, node) if place % 2 else _node(node, beside)
        place, count = place // 2, (count + 1) // 2
    if rest:
        raise PeerError("a path that goes beyond the root of the parcels")
    return node


def _above(level: Sequence[bytes]) -> list[bytes]:
    """Return the next level; an odd node at the end moves up as it is."""
    pairs = [_node(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
    return [*pairs, level[-1]] if len(level) % 2 else pairs


def _node(left: bytes, right: bytes) -> bytes:
    return digest(b"parcels", left, right)
