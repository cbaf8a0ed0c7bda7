"""The keys that schemes share, each bound to its context and to the clients it concerns."""

from collections.abc import Sequence

from f2ed.protocol.primitives.crypto import derive
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.secagg.masks import Mask
from f2ed.protocol.sharding import ClientId

__all__ = ["pair_mask", "sends"]


def pair_mask(context: bytes, agreed: bytes, mine: ClientId, other: ClientId) -> Mask:
    """Return the mask that `mine` applies for the pair; the other applies the same with the opposite sign."""
    info = fields(b"mask", unsigned(min(mine, other)), unsigned(max(mine, other)))
    return Mask(derive(agreed, salt=context, info=info), negative=other < mine)


def sends(members: Sequence[ClientId], one: ClientId, other: ClientId) -> bool:
    """Return whether `one` sends the ciphertext of a pair; everyone sends to about half of the others.

    Of two places the smaller one sends if their sum is odd, else the larger one.
    """
    first, second = members.index(one), members.index(other)
    return (first < second) == bool((first + second) % 2)
