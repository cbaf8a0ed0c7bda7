"""A hash chain that its author commits to once: seeds that were fixed before anybody knew the keys they would assign.

The author draws the last link at random; each link is the hash of the one after it, and the first, the head, is
published. Links are revealed from the head on, one for each draw. Everyone can check that a link belongs to the head,
nobody but the author can compute a link before it is revealed, and the author can neither choose nor skip one.
"""

import hashlib

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.primitives.fields import fields

__all__ = ["LINK_BYTES", "MAX_LINKS", "chain_head", "chain_link", "check_link"]

LINK_BYTES = 32
MAX_LINKS = 4096


def chain_head(secret: bytes) -> bytes:
    """Return the head of the chain whose last link is this secret, 32 bytes from `os.urandom`."""
    return chain_link(secret, 0)


def chain_link(secret: bytes, index: int) -> bytes:
    """Return a link; the head has the index 0."""
    if len(secret) != LINK_BYTES:
        raise ConfigError(f"a chain's secret of {len(secret)} bytes; draw {LINK_BYTES} from os.urandom")
    if not 0 <= index <= MAX_LINKS:
        raise ConfigError(f"link {index} of a chain of {MAX_LINKS}; begin a new federation with a new chain")
    return _hashed(secret, MAX_LINKS - index)


def check_link(link: bytes, index: int, *, earlier: bytes, at: int) -> None:
    """Raise `PeerError` unless the link hashes back to an earlier one, of the index `at`."""
    if not at < index <= MAX_LINKS:
        raise PeerError(
            f"link {index} of the authority's chain, after link {at}; links are used in order, once, up to {MAX_LINKS}"
        )
    if len(link) != LINK_BYTES or _hashed(link, index - at) != earlier:
        raise PeerError(f"link {index} does not belong to the authority's chain: somebody chose this seed")


def _hashed(link: bytes, times: int) -> bytes:
    for _ in range(times):
        link = hashlib.sha256(fields(b"f2ed chain 2", link)).digest()
    return link
