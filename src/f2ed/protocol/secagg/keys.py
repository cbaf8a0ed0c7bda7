"""The keys that schemes share, each bound to its context and to the clients it concerns."""

from f2ed.protocol.primitives.crypto import derive
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.secagg.masks import Mask
from f2ed.protocol.sharding import ClientId

__all__ = ["pair_mask"]


def pair_mask(context: bytes, agreed: bytes, mine: ClientId, other: ClientId) -> Mask:
    """Return the mask that `mine` applies for the pair; the other applies the same with the opposite sign."""
    info = fields(b"mask", unsigned(min(mine, other)), unsigned(max(mine, other)))
    return Mask(derive(agreed, salt=context, info=info), negative=other < mine)
