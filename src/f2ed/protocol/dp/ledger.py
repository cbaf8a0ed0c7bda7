"""The privacy that each client has spent: over rounds, and over restarts of the server."""

from collections.abc import Iterable, Mapping
from typing import final

import msgspec

from f2ed.protocol.dp.accountant import dp_epsilon
from f2ed.protocol.sharding import ClientId

__all__ = ["Ledger"]


@final
class Ledger(msgspec.Struct, frozen=True):
    """Adds up the privacy costs of what was opened.

    A round that a crash of the server cut off before its checkpoint is not included.
    """

    spent: dict[ClientId, float] = {}
    """The zCDP rho that each client has spent; clients that were never opened are missing."""

    def charge(self, costs: Mapping[ClientId, float]) -> "Ledger":
        """Return the ledger after a round that cost these clients so much rho."""
        return Ledger(self.spent | {client: self.spent.get(client, 0.0) + cost for client, cost in costs.items()})

    def dp_epsilon(self, clients: Iterable[ClientId], *, delta: float) -> dict[ClientId, float]:
        """Return the epsilon that each of these clients has spent so far."""
        return {client: dp_epsilon(self.spent.get(client, 0.0), delta) for client in clients}
