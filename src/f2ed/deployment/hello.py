"""How a node states, when the server asks, which client it is, or which helper is behind it."""

from typing import Annotated, Literal, final

import msgspec
from msgspec import Meta

from f2ed.core.errors import PeerError
from f2ed.protocol.helpers.messages import Refused
from f2ed.protocol.primitives.fields import fields, unsigned

__all__ = ["REFUSED", "Hello", "HelperHello", "hello_text", "helper_hello_text", "read_hello"]

REFUSED = "it refused"
"""Begins the reason why a node takes no part that answered with a refusal."""


@final
class Hello(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="hello"):
    """A node's statement of which client it is."""

    client: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    roster: Annotated[bytes, Meta(min_length=32, max_length=32)]
    """The digest of its roster."""
    run_config: Annotated[bytes, Meta(min_length=32, max_length=32)]
    """The digest of the run's settings and its app, as this node was given them."""
    last: Annotated[int, Meta(ge=-1, le=2**32)]
    """The last round that it answered, in any run; -1 if none."""
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]


def hello_text(job: str, node: int, client: int, run_config: bytes, last: int, nonce: bytes) -> bytes:
    """Return what a node signs: bound to its node id, so no other node can reuse it, and to a fresh nonce."""
    who = unsigned(node), unsigned(client)
    return fields(b"f2ed hello 3", job.encode(), *who, run_config, unsigned(last + 1), nonce)


@final
class HelperHello(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="helper"):
    """A helper's statement that it is behind a node, and ready."""

    role: Literal["mixer", "judge"]
    roster: Annotated[bytes, Meta(min_length=32, max_length=32)]
    """The digest of its roster."""
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]


def helper_hello_text(job: str, node: int, role: str, roster: bytes, nonce: bytes) -> bytes:
    """Return what a helper signs: bound to the node that carries its messages, and to a fresh nonce."""
    return fields(b"f2ed helper hello 1", job.encode(), unsigned(node), role.encode(), roster, nonce)


def read_hello(reply: bytes) -> Hello | HelperHello:
    """Read who a node says it is, or raise `PeerError`."""
    if len(reply) > 1024:
        raise PeerError(f"an answer of {len(reply)} bytes to the question who it is")
    try:
        answer = msgspec.msgpack.decode(reply, type=Hello | HelperHello | Refused)
    except ValueError as error:
        raise PeerError(f"an answer that cannot be read: {error}") from None
    if isinstance(answer, Refused):
        raise PeerError(f"{REFUSED}: {answer.reason}")
    return answer
