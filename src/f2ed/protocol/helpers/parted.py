"""A helper's state in two parts: what must outlive everything, and the round under way with its keys and seeds.

The first part goes to a disk, the second to a folder in memory, which no backup holds. The first names the second by
its digest: a round that is lost, or another one, is over, and nothing is answered from it.
"""

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.protocol.helpers.helper_state import HelperState, RoundState
from f2ed.protocol.primitives.crypto import digest, same

__all__ = ["joined", "named_round", "parted"]

_LABEL = b"f2ed helpers round"


def parted(stored: bytes) -> tuple[bytes, bytes]:
    """Return the lasting part of a stored state and the round under way, which is empty where there is none."""
    state = _read(stored)
    if state.round is None:
        return msgspec.msgpack.encode(msgspec.structs.replace(state, apart=b"")), b""
    under_way = msgspec.msgpack.encode(state.round)
    lasting = msgspec.structs.replace(state, round=None, apart=digest(_LABEL, under_way))
    return msgspec.msgpack.encode(lasting), under_way


def named_round(lasting: bytes) -> bytes:
    """Return the digest of the round that a lasting part belongs to; empty where there is none."""
    return _read(lasting).apart


def joined(lasting: bytes, under_way: bytes) -> bytes:
    """Return the whole state; a round that is not the one the lasting part names is over."""
    state = _read(lasting)
    if not state.apart:
        return lasting
    whole = msgspec.structs.replace(state, apart=b"")
    if under_way and same(digest(_LABEL, under_way), state.apart):
        whole = msgspec.structs.replace(whole, round=msgspec.msgpack.decode(under_way, type=RoundState))
    return msgspec.msgpack.encode(whole)


def _read(data: bytes) -> HelperState:
    try:
        return msgspec.msgpack.decode(data, type=HelperState)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"a helper's stored state cannot be read ({error}); only bytes from `store` can") from None
