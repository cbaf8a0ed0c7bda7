"""The public seed of the assignments by commit and reveal: no party chooses it, every party can check it.

First everyone publishes `commit(share)`, then, once all commitments are there, everyone publishes the share
itself, and `combine` checks and mixes them. One honest share that is random makes the seed random, with one
known limit: the party that reveals last sees the seed first and may abort. `combine` then refuses and names the
missing parties. Repeat the draw a few times at most: each abort is one more draw for whoever aborts, and m parties that
may abort one after the other have up to 2^m. Rosters use a chain that the authority committed to (`chain.py`) instead.

The context binds a commitment to its job: use the roster's hash and the epoch, and start only after the
roster is closed, since ids chosen in sight of the seed could be chosen for the assignment they lead to.
"""

import hashlib
from collections.abc import Mapping

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.primitives.fields import fields, unsigned

__all__ = ["SHARE_BYTES", "combine", "commit", "verify"]

SHARE_BYTES = 32


def commit(share: bytes, *, author: int, context: bytes) -> bytes:
    """Return the commitment to a share: 32 bytes that bind the author and hide a share drawn from `os.urandom`.

    The author is part of it, so that nobody can copy the commitment of another and later open it.
    """
    if len(share) != SHARE_BYTES:
        raise ConfigError(f"a seed share of {len(share)} bytes; draw {SHARE_BYTES} from os.urandom")
    return _digest(b"f2ed seed commitment 1", context, unsigned(author), share)


def verify(commitment: bytes, share: bytes, *, author: int, context: bytes) -> None:
    """Raise `PeerError` unless the share is the one its author committed to."""
    if len(share) != SHARE_BYTES or commit(share, author=author, context=context) != commitment:
        raise PeerError(f"client {author} revealed another seed share than it committed to; draw again without it")


def combine(commitments: Mapping[int, bytes], reveals: Mapping[int, bytes], *, context: bytes) -> bytes:
    """Return the public seed, 32 bytes, once every commitment is opened as it was made."""
    if not commitments:
        raise ConfigError("no commitments to a seed; at least one party must contribute a share")
    if silent := sorted(commitments.keys() - reveals.keys()):
        raise PeerError(f"no seed share from {_some(silent)} after committing to one; draw again without them")
    if uninvited := sorted(reveals.keys() - commitments.keys()):
        raise PeerError(
            f"a seed share from {_some(uninvited)} without a commitment; it could be chosen to suit the others"
        )
    for author, share in reveals.items():
        verify(commitments[author], share, author=author, context=context)
    opened = (part for author in sorted(reveals) for part in (unsigned(author), reveals[author]))
    return _digest(b"f2ed public seed 1", context, *opened)


def _digest(*parts: bytes) -> bytes:
    return hashlib.sha256(fields(*parts)).digest()


def _some(clients: list[int]) -> str:
    """Name the first few clients."""
    rest = len(clients) - 3
    return ", ".join(map(str, clients[:3])) + (f" and {rest} more" if rest > 0 else "")
