"""The server's entry point: a generator that leads a shard through one round, under any scheme.

It learns the sum of the survivors' vectors, or why there is none. Nothing that a client sends ends it: a client that
breaks the protocol is dropped, and a shard that cannot be opened states its reason.
"""

from collections.abc import Generator, Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from f2ed.core.errors import ConfigError, PeerError
from f2ed.core.spill import Zeros
from f2ed.protocol.primitives.ring import Words
from f2ed.protocol.secagg.blame import Blame
from f2ed.protocol.secagg.checks import check
from f2ed.protocol.secagg.gather import Replies, Requests, was_silent
from f2ed.protocol.secagg.schemes import scheme_of
from f2ed.protocol.secagg.schemes.base import NO_KEYS, ShardKeys, ShardRound
from f2ed.protocol.secagg.terms import Terms, bind
from f2ed.protocol.sharding import ClientId

__all__ = ["ShardSum", "secure_sum"]


class ShardSum(NamedTuple):
    """The result of one round in one shard: a total over the survivors, or the reason why it stays closed."""

    survivors: tuple[ClientId, ...]
    total: Words | None
    reason: str | None
    dropped: Mapping[ClientId, str]
    keys: ShardKeys | None = None
    """The members' keys, to be given to the next round of the same epoch; none if the next round needs fresh ones."""
    blame: tuple[Blame, ...] = ()
    """Who broke the protocol, with evidence; the sum may be open all the same."""


def secure_sum(
    terms: Terms,
    roster: Mapping[ClientId, bytes],
    *,
    model: bytes,
    keys: ShardKeys | None = None,
    threads: int = 2,
    zeros: Zeros = np.zeros,
) -> Generator[Requests, Replies, ShardSum]:
    """Lead one shard through one round; see `gather` for what may be sent in.

    `model` is SHA-256 of the global model, and of all else, that the clients received. `keys` are those of the epoch,
    from the result of an earlier round; without them the members are asked first. `zeros` makes the vectors that
    uploads are added to. Terms that no client may accept raise `ConfigError`.
    """
    check(_readable(terms))
    scheme = scheme_of(terms.mode)
    context = bind(terms, roster, model)
    dropped: dict[ClientId, str] = {}
    agreed = keys
    blame: list[Blame] = []
    try:
        if scheme.keeps_keys and agreed is None:
            agreed = yield from scheme.agree_on_keys(terms, roster, dropped)
        shard = ShardRound(terms, roster, context, agreed or NO_KEYS, dropped, threads, blame, zeros)
        survivors, total = yield from scheme.add(shard)
    except PeerError as error:
        # A member that refuses may have lost its keys; one that is silent may be back in the next round.
        kept = agreed if all(map(was_silent, dropped.values())) else None
        return ShardSum((), None, str(error), dropped, kept, tuple(blame))
    return ShardSum(survivors, total, None, dropped, agreed, tuple(blame))


def _readable(terms: Terms) -> Terms:
    """Return the terms as clients will read them, or raise `ConfigError` for a field that none of them could read."""
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(terms), type=Terms)
    except msgspec.ValidationError as error:
        raise ConfigError(f"terms that no client can read: {error}; fields are {Terms.__struct_fields__}") from None
