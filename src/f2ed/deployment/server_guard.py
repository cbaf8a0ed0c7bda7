"""What a server with helpers remembers from round to round: survivors and strikes of an epoch."""

from typing import NamedTuple

from f2ed.protocol.helpers import HelpersOutcome
from f2ed.protocol.sharding import ClientId

__all__ = ["ServerGuard"]


class ServerGuard(NamedTuple):
    """The server's part of the survivor guard; mixer and judge have their own."""

    epoch: int = -1
    kept: tuple[ClientId, ...] | None = None
    """The last survivors, None if there were none."""
    struck: tuple[ClientId, ...] = ()
    """Who is out for the epoch."""

    def within(self, epoch: int) -> "ServerGuard":
        """Return what counts in an epoch: nothing of an earlier one."""
        return self if self.epoch == epoch else ServerGuard(epoch)

    def after(self, outcome: HelpersOutcome) -> "ServerGuard":
        """Return what counts after a round of this epoch."""
        struck = tuple(sorted({*self.struck, *outcome.struck}))
        return self._replace(kept=outcome.kept or self.kept, struck=struck)
