"""When the clients are dealt anew: which epoch a round belongs to (rounds and epochs count from 0).

Each new deal shows the server the same clients in other company, and over many rounds it can solve for the
single client. Fixed shards show it the same sums again and again, which is why deployments keep them. Between the
two are batches: clients that always stay together, so that no more than a batch can be solved for.
"""

from collections.abc import Mapping
from typing import Annotated, final

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.protocol.sharding.assignment import Assignment, ClientId, assign_shards

__all__ = ["Batches", "EveryKRounds", "EveryRound", "Fixed", "Schedule"]

Positive = Annotated[int, msgspec.Meta(ge=1)]


class _Whole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule under which every new deal is of all clients, one by one."""

    def assign(
        self, roster: Mapping[ClientId, bytes], *, shards: int, epoch: int, seed: bytes, smallest: int = 1
    ) -> Assignment:
        """Deal the clients for an epoch."""
        return assign_shards(roster, shards=shards, epoch=epoch, seed=seed, smallest=smallest)

    def fewest(self, clients: int, shards: int) -> int:
        """Return the members of the smallest shard."""
        return clients // shards


@final
class Fixed(_Whole, frozen=True, tag="fixed"):
    """One deal for the whole job; the default of a deployment."""

    def __call__(self, round: int, /) -> int:  # noqa: A002, ARG002  every schedule is called alike
        """Return the epoch of a round, which is 0."""
        return 0


@final
class EveryKRounds(_Whole, frozen=True, tag="every-k-rounds"):
    """A new deal every `k` rounds."""

    k: Positive

    def __call__(self, round: int, /) -> int:  # noqa: A002  the paper's word
        """Return the epoch of a round."""
        return round // self.k


@final
class EveryRound(_Whole, frozen=True, tag="every-round"):
    """A new deal in every round, as the paper's Algorithm 1 has it; for reproduction."""

    def __call__(self, round: int, /) -> int:  # noqa: A002  the paper's word
        """Return the epoch of a round, which is the round."""
        return round


@final
class Batches(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="batches"):
    """Clients in fixed batches of `size`, and a new deal of whole batches every `k` rounds (So et al., AAAI 2023).

    Whatever the server adds and subtracts, it finds sums over whole batches: everyone stays hidden among `size`, at
    any number of rounds. The smaller the batches, the more of a shard changes with a deal.
    """

    size: Positive
    k: Positive = 1

    def __call__(self, round: int, /) -> int:  # noqa: A002  the paper's word
        """Return the epoch of a round."""
        return round // self.k

    def assign(
        self, roster: Mapping[ClientId, bytes], *, shards: int, epoch: int, seed: bytes, smallest: int = 1
    ) -> Assignment:
        """Deal the clients into batches, the same in every epoch, and the batches into shards, anew in each.

        Where clients or batches do not divide evenly, batches differ in size by one and shards by one batch.
        """
        batches = self._count(len(roster), shards)
        together = assign_shards(roster, shards=batches, epoch=0, seed=b"batches" + seed)
        dealt = assign_shards(dict.fromkeys(range(batches), together.roster), shards=shards, epoch=epoch, seed=seed)
        members = tuple(
            tuple(sorted(client for batch in shard for client in together.shards[batch])) for shard in dealt.shards
        )
        if (fewest := min(map(len, members))) < smallest:
            raise ConfigError(f"a shard of {fewest} members, fewer than {smallest}; use fewer shards")
        return Assignment(shards=members, epoch=epoch, seed=seed, roster=together.roster)

    def fewest(self, clients: int, shards: int) -> int:
        """Return a number of members that no shard falls below."""
        batches = self._count(clients, shards)
        return batches // shards * (clients // batches)

    def _count(self, clients: int, shards: int) -> int:
        batches = clients // self.size
        if batches < shards or shards < 1:
            raise ConfigError(
                f"{clients} clients make {batches} batches of {self.size}, too few for {shards} shards; "
                f"use batches of at most {clients // max(1, shards)}, or fewer shards"
            )
        return batches


Schedule = Fixed | EveryKRounds | EveryRound | Batches
