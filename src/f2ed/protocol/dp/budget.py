"""A node's own budget of differential privacy, which no server can raise.

    flower-supernode … --node-config '… f2ed-dp-epsilon=8.0 f2ed-delta=1e-5 f2ed-ledger="/var/lib/f2ed/spent.json"'

The cost of an update is recorded before it leaves, for all jobs in one file, and as if the smallest sum that its terms
allow were opened, even if none ever is. An update that the budget does not cover is not sent.
"""

from logging import getLogger
from pathlib import Path
from typing import Annotated, final

import msgspec

from f2ed.core.errors import Refusal
from f2ed.core.files import StoredValue
from f2ed.protocol.dp.accountant import dp_epsilon

__all__ = ["Budget"]

_log = getLogger("f2ed.protocol")


@final
class _Spent(msgspec.Struct, frozen=True):
    rho: Annotated[float, msgspec.Meta(ge=0)]
    """zCDP, added up over all updates that left."""


@final
class Budget(msgspec.Struct, frozen=True):
    """The largest epsilon at a delta, and the file that records what was spent of it."""

    path: Path
    dp_epsilon: float
    delta: float

    def check(self, cost: float | None) -> None:
        """Refuse a cost, in zCDP rho, that the budget does not cover; None means that there is no bound."""
        self._after(cost, self._stored.read())

    def pay(self, cost: float | None) -> float:
        """Record the cost, or refuse it; return the total epsilon."""
        with self._stored.hold() as held:
            rho, total = self._after(cost, held.before)
            held.write(_Spent(rho))
        return total

    @property
    def _stored(self) -> StoredValue[_Spent]:
        return StoredValue(
            self.path,
            _Spent,
            "the ledger of this node's privacy",
            repair="restore it, or name another with f2ed-ledger, and a smaller f2ed-dp-epsilon",
            remedy="name another ledger with f2ed-ledger in the node config",
        )

    def _after(self, cost: float | None, spent: _Spent | None) -> tuple[float, float]:
        if cost is None:
            raise Refusal("the terms state no noise; this node has a privacy budget and sends nothing without noise")
        rho = cost + (0.0 if spent is None else spent.rho)
        total = dp_epsilon(rho, self.delta)
        if not total <= self.dp_epsilon:
            # The ledger is the node's own, for all federations that it is in: its numbers are not for the server.
            _log.warning(
                "f2ed: with this update the node's epsilon would be %.3g at delta %g; its budget is %g",
                total,
                self.delta,
                self.dp_epsilon,
            )
            raise Refusal("this node cannot afford the update: its budget is spent; the numbers are in its own log")
        return rho, total
