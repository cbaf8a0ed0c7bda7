"""What a helper remembers: of a job, and of the round under way."""

from typing import final

import msgspec

from f2ed.protocol.helpers.messages import Opening
from f2ed.protocol.helpers.terms import Terms
from f2ed.protocol.sharding import ClientId

__all__ = ["Accepted", "HelperState", "RoundState"]


class _Redacted(msgspec.Struct, frozen=True, array_like=True):
    def __repr__(self) -> str:
        """Show the type alone."""
        return f"{type(self).__name__}(…)"


@final
class Accepted(_Redacted, frozen=True):
    """A client whose envelope this helper accepted, with the seeds that were in it."""

    client: ClientId
    envelope: bytes
    row: bytes
    mixer: bytes
    server: bytes


@final
class RoundState(_Redacted, frozen=True, kw_only=True):
    """A helper in a round."""

    terms: Terms
    context: bytes
    step: int = 0
    """The step that was answered last."""
    seed: bytes = b""
    """Of its keys; erased with the round."""
    half: bytes = b""
    """Its half of the joint seed."""
    openings: tuple[Opening, ...] = ()
    accepted: tuple[Accepted, ...] = ()
    """In the order of their ids: first all that were accepted, then the set."""
    clients: bytes = b""
    """The digest of the set, once it is signed."""
    joint: bytes = b""
    masked: bytes = b""
    """The mixer: sketches of the masked rows."""
    wanted: tuple[ClientId, ...] = ()
    """The mixer: rows that are still to be checked."""
    batches: int = 0
    matrix: bytes = b""
    """The judge: the Gram matrix with its masked row 0, then test values."""
    tests: bytes = b""
    weights: bytes = b""
    """The random combination."""
    combined: bytes = b""
    """The judge: the combination of the masks."""
    kept: tuple[ClientId, ...] = ()
    blame: tuple[bytes, ...] = ()
    """The mixer: the keys of a blame step, after its seeds are erased."""
    replies: tuple[tuple[bytes, bytes], ...] = ()
    """SHA-256 of the requests of this round, and the replies."""


@final
class HelperState(_Redacted, frozen=True, kw_only=True):
    """All that a helper remembers of one job under one policy."""

    policy: bytes
    job: str
    mark: tuple[int, ...] = ()
    """The latest (epoch, round) that was begun; neither it nor an earlier one begins again."""
    before: tuple[int, ...] = ()
    """The mark before that one."""
    seen: tuple[int, ...] = ()
    """The latest (epoch, round) that the other helper was seen to open."""
    lasting: bytes = b""
    """The digest of what the first terms said; later ones must say the same."""
    kept: tuple[ClientId, ...] | None = None
    """The last survivors of the epoch."""
    struck: tuple[ClientId, ...] = ()
    """Who is out for the epoch."""
    round: RoundState | None = None
    apart: bytes = b""
    """The digest of the round under way, where it is stored apart from this."""
    stale: bool = False
    """Whether the other helper has shown that this is an old copy: then nothing is answered any more."""
    unshown: int = 0
    """The mixer: how often the server did not show the rows that were to be checked; one less every epoch."""
