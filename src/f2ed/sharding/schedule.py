"""When the clients are dealt anew: which epoch a round belongs to (rounds and epochs count from 0).

Each new deal shows the server the same clients in other company, and over many rounds it can solve for the
single client. Fixed shards show it the same sums again and again, which is why deployments keep them.
"""

from typing import Annotated, final

import msgspec

__all__ = ["EveryKRounds", "EveryRound", "Fixed", "Schedule"]

Positive = Annotated[int, msgspec.Meta(ge=1)]


@final
class Fixed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="fixed"):
    """One deal for the whole job; the default of a deployment."""

    def __call__(self, round: int, /) -> int:  # noqa: A002, ARG002  every schedule is called alike
        """Return the epoch of a round, which is 0."""
        return 0


@final
class EveryKRounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="every-k-rounds"):
    """A new deal every `k` rounds."""

    k: Positive

    def __call__(self, round: int, /) -> int:  # noqa: A002  the paper's word
        """Return the epoch of a round."""
        return round // self.k


@final
class EveryRound(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="every-round"):
    """A new deal in every round, as the paper's Algorithm 1 has it; for reproduction."""

    def __call__(self, round: int, /) -> int:  # noqa: A002  the paper's word
        """Return the epoch of a round, which is the round."""
        return round


Schedule = Fixed | EveryKRounds | EveryRound
