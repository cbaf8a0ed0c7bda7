"""When clients are resharded: which epoch a round belongs to (rounds and epochs count from 0).

Each new assignment shows the server the same clients in other shards, and over many rounds it can solve for single
clients. Fixed shards show it the same sums in every round, which is why deployments keep them. Batches are in between:
clients that always share a shard, so that no sum smaller than a batch can be solved for.
"""

from collections.abc import Mapping
from typing import Annotated, final

import msgspec

from f2ed.core.errors import ConfigError
from f2ed.core.settings import Settings
from f2ed.protocol.sharding.assignment import Assignment, ClientId, assign_shards, roster_hash
from f2ed.protocol.sharding.groups import assign_groups, draw_groups

__all__ = ["Batches", "EveryKRounds", "EveryRound", "Fixed", "Schedule"]

Positive = Annotated[int, msgspec.Meta(ge=1)]


class _Individually(Settings, frozen=True, forbid_unknown_fields=True):
    """A schedule that assigns each client on its own."""

    def assign(
        self, roster: Mapping[ClientId, bytes], *, shards: int, epoch: int, seed: bytes, min_size: int = 1
    ) -> Assignment:
        """Assign the clients for an epoch."""
        return assign_shards(roster, shards=shards, epoch=epoch, seed=seed, min_size=min_size)

    def min_shard_size(self, clients: int, shards: int) -> int:
        """Return the number of members of the smallest shard."""
        return clients // shards


@final
class Fixed(_Individually, frozen=True, tag="fixed"):
    """One assignment for the whole job; the default of a deployment."""

    def __call__(self, round: int, /) -> int:  # noqa: A002, ARG002  every schedule is called alike
        """Return the epoch of a round, which is 0."""
        return 0


@final
class EveryKRounds(_Individually, frozen=True, tag="every-k-rounds"):
    """Reshard every `k` rounds."""

    k: Positive

    def __call__(self, round: int, /) -> int:  # noqa: A002  the paper's word
        """Return the epoch of a round."""
        return round // self.k


@final
class EveryRound(_Individually, frozen=True, tag="every-round"):
    """Reshard in every round, as in the paper's Algorithm 1; for reproduction."""

    def __call__(self, round: int, /) -> int:  # noqa: A002  the paper's word
        """Return the epoch of a round, which is the round."""
        return round


@final
class Batches(Settings, frozen=True, forbid_unknown_fields=True, tag="batches"):
    """Clients in fixed batches of `size`; whole batches are resharded every `k` rounds (So et al., AAAI 2023).

    Whatever the server adds and subtracts, it finds sums over whole batches: everyone stays hidden in a crowd of
    `size`, over any number of rounds. The smaller the batches, the more of a shard changes between epochs.
    """

    size: Positive
    k: Positive = 1

    def __call__(self, round: int, /) -> int:  # noqa: A002  the paper's word
        """Return the epoch of a round."""
        return round // self.k

    def assign(
        self, roster: Mapping[ClientId, bytes], *, shards: int, epoch: int, seed: bytes, min_size: int = 1
    ) -> Assignment:
        """Assign the clients to batches, the same in every epoch, and the batches to the shards of this epoch.

        Where clients or batches do not divide evenly, batches differ in size by one and shards by one batch.
        """
        batches = draw_groups(roster, count=self._count(len(roster), shards), seed=b"batches" + seed)
        return assign_groups(
            batches, shards=shards, epoch=epoch, seed=seed, roster=roster_hash(roster), min_size=min_size
        )

    def min_shard_size(self, clients: int, shards: int) -> int:
        """Return a lower bound on the number of members of each shard."""
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
