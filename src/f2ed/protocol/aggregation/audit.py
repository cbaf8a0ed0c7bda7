"""The record of one round: what happened in each shard, and which guarantee held."""

from typing import final

import msgspec

from f2ed.protocol.secagg import Blame
from f2ed.protocol.sharding import ClientId

__all__ = ["Audit", "ShardAudit"]


@final
class ShardAudit(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in one shard."""

    shard: int
    mode: str
    members: tuple[ClientId, ...]
    survivors: tuple[ClientId, ...]
    """The members whose sum was opened; empty if the shard stayed closed."""
    reason: str | None
    """Why there is no mean, or None if there is one."""
    dropped: dict[ClientId, str]
    blame: tuple[Blame, ...] = ()
    """Who broke the protocol in this shard, with evidence that others can check."""
    clipped: int
    """Clipped coordinates, over all survivors. With noise neither this nor the next is counted: both are 0."""
    shortened: int
    """Survivors whose update was scaled down to the clip norm."""
    bytes_up: int
    bytes_down: int
    privacy_cost: float | None = None
    """The zCDP rho that this round cost each survivor; 0 if the shard stayed closed, None without noise."""


@final
class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a round: which guarantee held, and where."""

    job: str
    epoch: int
    round: int
    secure: bool
    colluders: int
    shards: tuple[ShardAudit, ...]

    @property
    def opened(self) -> tuple[int, ...]:
        """The shards that gave a mean, in order: the rows that the estimator saw."""
        return tuple(each.shard for each in self.shards if each.reason is None)

    @property
    def missing(self) -> dict[int, str]:
        """The reasons why the other shards gave none."""
        return {each.shard: each.reason for each in self.shards if each.reason is not None}

    @property
    def crowd(self) -> int:
        """The smallest number of clients in an opened sum; 1 where nothing was hidden, 0 where nothing was opened."""
        crowds = [len(each.survivors) for each in self.shards if each.survivors]
        return min(crowds, default=0) if self.secure else 1

    @property
    def privacy_costs(self) -> dict[ClientId, float]:
        """The zCDP rho that this round cost each client that was opened; empty without noise."""
        return {client: each.privacy_cost for each in self.shards if each.privacy_cost for client in each.survivors}

    def summary(self) -> str:
        """Return one line for an operator."""
        if not self.secure:
            secrecy = "in the clear: the server saw every update"
        else:
            secrecy = f"every opened update hidden in a crowd of at least {self.crowd}"
        dropped = sum(len(each.dropped) for each in self.shards)
        return (
            f"round {self.round}: {len(self.opened)} of {len(self.shards)} shards opened, {dropped} dropped; {secrecy}"
        )
