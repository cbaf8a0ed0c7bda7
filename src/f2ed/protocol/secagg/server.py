"""The server's one entry point: a generator that leads a shard through one round, in either mode.

It learns the sum of the survivors' vectors, or why there is none. Nothing that a client sends ends it: a client that
breaks the protocol is dropped, and a shard that cannot be opened says so in its outcome.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.primitives.ring import Words
from f2ed.protocol.secagg.gather import Replies, Requests
from f2ed.protocol.secagg.messages import SignedKey
from f2ed.protocol.secagg.schemes.all_or_nothing_server import agree_on_keys, collect
from f2ed.protocol.secagg.schemes.dropout_tolerant_server import Round
from f2ed.protocol.secagg.terms import Terms, bind, check
from f2ed.protocol.sharding import ClientId

__all__ = ["Outcome", "secure_sum"]


class Outcome(NamedTuple):
    """What came of a shard: a total over the survivors, or the reason why it stays closed."""

    survivors: tuple[ClientId, ...]
    total: Words | None
    reason: str | None
    dropped: Mapping[ClientId, str]
    keys: tuple[SignedKey, ...] = ()
    """All-or-nothing: the members' keys, to be given to the next round of the same epoch."""


def secure_sum(
    terms: Terms,
    roster: Mapping[ClientId, bytes],
    *,
    model: bytes,
    keys: Sequence[SignedKey] = (),
    threads: int = 2,
) -> Generator[Requests, Replies, Outcome]:
    """Lead one shard through one round; see `gather` for what may be sent in.

    `model` is SHA-256 of the global model that the clients were given. `keys` are those of the epoch, from the outcome
    of an earlier round; without them the members are asked first. Terms that no client may accept raise `ConfigError`.
    """
    check(_readable(terms))
    context = bind(terms, roster, model)
    dropped: dict[ClientId, str] = {}
    agreed = tuple(keys)
    try:
        if terms.mode == "dropout-tolerant":
            survivors, total = yield from Round(terms, roster, context, dropped, threads).run()
        else:
            if terms.mode == "all-or-nothing" and not agreed:
                agreed = yield from agree_on_keys(terms, roster, dropped)
            survivors, total = yield from collect(terms, context, agreed, dropped)
    except PeerError as error:
        return Outcome((), None, str(error), dropped, agreed)
    return Outcome(survivors, total, None, dropped, agreed)


def _readable(terms: Terms) -> Terms:
    """Return the terms as clients will read them, or say which field none of them could."""
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(terms), type=Terms)
    except msgspec.ValidationError as error:
        raise ConfigError(f"terms that no client can read: {error}; fields are {Terms.__struct_fields__}") from None
