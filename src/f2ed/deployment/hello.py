"""How a node states, when the server asks, which client it is."""

from typing import Annotated, final

import msgspec
from msgspec import Meta

from f2ed.protocol.primitives.fields import fields, unsigned

__all__ = ["Hello", "hello_text"]


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
